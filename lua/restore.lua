#!lua
-- Purpose: put one chunk of a suspended packet back: claims with their users, and shares that are
--   left. The first chunk discards what was there. Sending a chunk again changes nothing. A share
--   is 'seq:amount_fen', or 'seq:amount_fen:claimed_at_ms:user_id' where it was claimed.
-- KEYS: meta shares claims board
-- ARGV: rebuild offset tie_factor share...
-- Returns: {status, restored}: OK with the shares restored so far; SUPERSEDED when another rebuild
--   has begun since; GAP when the chunk does not join what is there; UNREADABLE when a share is not one.
local OK, SUPERSEDED, GAP, UNREADABLE = 0, 1, 2, 3

local meta_key, shares_key, claims_key, board_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local rebuild, offset, tie_factor = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local amounts = #ARGV - 3

local meta = redis.call('HMGET', meta_key, 'state', 'rebuild', 'restored', 'restored_fen')
local restored, restored_fen = tonumber(meta[3] or '0'), tonumber(meta[4] or '0')
if meta[1] ~= 'rebuilding' or meta[2] ~= rebuild then return {SUPERSEDED, 0} end
if offset + amounts <= restored then return {OK, restored} end
if offset ~= restored then return {GAP, restored} end

local left, claims, scores = {}, {}, {}
for i = 1, amounts do
  local share = ARGV[i + 3]
  local seq, amount_fen, claim = string.match(share, '^(%d+):(%d+)(.*)$')
  if not seq then return {UNREADABLE, restored} end
  restored_fen = restored_fen + amount_fen
  if claim == '' then
    left[#left + 1] = share
  else
    local claimed_at_ms, user_id = string.match(claim, '^:(%d+):([%w_-]+)$')
    if not user_id then return {UNREADABLE, restored} end
    claims[#claims + 1] = user_id
    claims[#claims + 1] = seq .. ':' .. amount_fen .. ':' .. claimed_at_ms
    scores[#scores + 1] = amount_fen * tie_factor + (tie_factor - 1 - seq)
    scores[#scores + 1] = user_id
  end
end

if offset == 0 then
  redis.call('UNLINK', shares_key)
  redis.call('UNLINK', claims_key)
  redis.call('UNLINK', board_key)
end
if #left > 0 then redis.call('RPUSH', shares_key, unpack(left)) end
if #claims > 0 then redis.call('HSET', claims_key, unpack(claims)) end
if #scores > 0 then redis.call('ZADD', board_key, unpack(scores)) end
redis.call('HSET', meta_key, 'restored', string.format('%.0f', restored + amounts),
  'restored_fen', string.format('%.0f', restored_fen))
return {OK, restored + amounts}
