#!lua
-- Purpose: load one chunk of a packet's shares; the first chunk creates the packet in state 'loading'.
--   Sending a chunk again, or all of them from the start, changes nothing.
-- KEYS: certificate meta shares
-- ARGV: offset tie_factor amount_fen...
-- Returns: {status, loaded}: OK with the shares loaded so far; ALREADY_OPEN; GAP when the chunk
--   does not join what is there; UNRANKABLE when an amount is below 1 or does not fit a board score;
--   UNCERTIFIED when this server's data is not certified under the caller's token.
local OK, ALREADY_OPEN, GAP, UNRANKABLE, UNCERTIFIED = 0, 1, 2, 3, 4
local MAX_SCORE = 2 ^ 53 - 1

local certificate_key, meta_key, shares_key = KEYS[1], KEYS[2], KEYS[3]
local offset, tie_factor, amounts = tonumber(ARGV[1]), tonumber(ARGV[2]), #ARGV - 2

if redis.call('GET', certificate_key) ~= '@certificate@' then return {UNCERTIFIED, 0} end
local meta = redis.call('HMGET', meta_key, 'state', 'loaded_fen')
local state, loaded_fen = meta[1], tonumber(meta[2] or '0')
local loaded = redis.call('LLEN', shares_key)
if state and state ~= 'loading' then return {ALREADY_OPEN, loaded} end
if not state and loaded > 0 then return {GAP, loaded} end
if offset + amounts <= loaded then return {OK, loaded} end
if offset ~= loaded then return {GAP, loaded} end

local shares = {}
for i = 1, amounts do
  local amount_fen = tonumber(ARGV[i + 2])
  local seq = offset + i
  local score = amount_fen * tie_factor + (tie_factor - 1 - seq)
  if amount_fen < 1 or score > MAX_SCORE then return {UNRANKABLE, loaded} end
  loaded_fen = loaded_fen + amount_fen
  shares[i] = string.format('%.0f:%.0f', seq, amount_fen)
end
redis.call('RPUSH', shares_key, unpack(shares))
redis.call('HSET', meta_key, 'state', 'loading', 'loaded_fen', string.format('%.0f', loaded_fen))
return {OK, loaded + amounts}
