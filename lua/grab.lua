#!lua
-- Purpose: give the next shares of one packet to the users of one call, one share a user at most.
-- KEYS: certificate meta shares claims board outbox
-- ARGV: packet_id user_id...
-- Returns: {status, now_ms}, and with status OK four integers a user, in ARGV order:
--   outcome, seq, amount_fen, claimed_at_ms (for NOT_OPEN_YET: opens_at_ms; else 0 where nothing was won).
--   UNCERTIFIED when this server's data is not certified under the caller's token; LOADING while a
--   packet is being loaded or rebuilt.
local OK, UNKNOWN, LOADING, INCONSISTENT, UNCERTIFIED = 0, 1, 2, 3, 4
local GRABBED, REPEATED, SOLD_OUT, NOT_OPEN_YET, EXPIRED, CLOSED = 1, 2, 3, 4, 5, 6

local certificate_key, meta_key, shares_key = KEYS[1], KEYS[2], KEYS[3]
local claims_key, board_key, outbox_key = KEYS[4], KEYS[5], KEYS[6]
local packet_id, users = ARGV[1], #ARGV - 1

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

if redis.call('GET', certificate_key) ~= '@certificate@' then return {UNCERTIFIED, now_ms} end
local meta = redis.call('HMGET', meta_key, 'state', 'shares', 'opens_at_ms', 'expires_at_ms', 'tie_factor')
local state = meta[1]
if not state then return {UNKNOWN, now_ms} end
if state == 'loading' or state == 'rebuilding' then return {LOADING, now_ms} end
local shares, opens_at_ms, expires_at_ms = tonumber(meta[2]), tonumber(meta[3]), tonumber(meta[4])
local tie_factor = tonumber(meta[5])

-- Lua never rolls back. Touching every key here makes one of the wrong type fail before the first write.
local remaining = redis.call('LLEN', shares_key)
local claimed = redis.call('HLEN', claims_key)
redis.call('ZCARD', board_key)
redis.call('XLEN', outbox_key)
if claimed + remaining ~= shares then return {INCONSISTENT, now_ms} end

local refusal, refusal_ms = SOLD_OUT, 0
if state ~= 'open' then refusal, remaining = CLOSED, 0
elseif now_ms >= expires_at_ms then refusal, remaining = EXPIRED, 0
elseif now_ms < opens_at_ms then refusal, refusal_ms, remaining = NOT_OPEN_YET, opens_at_ms, 0 end

local held = redis.call('HMGET', claims_key, unpack(ARGV, 2))
local winners, is_winner = {}, {}
for i = 1, users do
  local user_id = ARGV[i + 1]
  if held[i] then
    local seq, amount_fen, claimed_at_ms = string.match(held[i], '^(%d+):(%d+):(%d+)$')
    if not seq then return {INCONSISTENT, now_ms} end
    held[i] = {tonumber(seq), tonumber(amount_fen), tonumber(claimed_at_ms)}
  elseif not is_winner[user_id] and #winners < remaining then
    winners[#winners + 1] = user_id
    is_winner[user_id] = true
  end
end

local fresh = {}
if #winners > 0 then
  local popped = redis.call('LRANGE', shares_key, 0, #winners - 1)
  local claims, scores, lines = {}, {}, {}
  for i = 1, #winners do
    local user_id = winners[i]
    local seq, amount_fen = string.match(popped[i], '^(%d+):(%d+)$')
    if not seq or string.find(user_id, '[^%w_-]') then return {INCONSISTENT, now_ms} end
    claims[2 * i - 1], claims[2 * i] = user_id, popped[i] .. ':' .. string.format('%.0f', now_ms)
    scores[2 * i - 1], scores[2 * i] = amount_fen * tie_factor + (tie_factor - 1 - seq), user_id
    lines[i] = '[' .. seq .. ',' .. amount_fen .. ',"' .. user_id .. '"]'
    fresh[user_id] = {tonumber(seq), tonumber(amount_fen), now_ms}
  end
  redis.call('LTRIM', shares_key, #winners, -1)
  redis.call('HSET', claims_key, unpack(claims))
  redis.call('ZADD', board_key, unpack(scores))
  redis.call('XADD', outbox_key, '*', 'claims', '{"packet_id":"' .. packet_id .. '","claimed_at_ms":'
    .. string.format('%.0f', now_ms) .. ',"claims":[' .. table.concat(lines, ',') .. ']}')
end

local reply = {OK, now_ms}
for i = 1, users do
  local user_id, at = ARGV[i + 1], 4 * i - 1
  local claim = held[i] or fresh[user_id]
  if claim then
    reply[at] = is_winner[user_id] and GRABBED or REPEATED
    reply[at + 1], reply[at + 2], reply[at + 3] = claim[1], claim[2], claim[3]
    is_winner[user_id] = nil
  else
    reply[at], reply[at + 1], reply[at + 2], reply[at + 3] = refusal, 0, 0, refusal_ms
  end
end
return reply
