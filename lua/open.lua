#!lua
-- Purpose: open a loaded packet, after its count and sum have been found equal to what MySQL says.
--   Grabs are answered from opens_at_ms on. Opening again changes nothing.
-- KEYS: certificate meta shares claims board
-- ARGV: shares total_fen opens_at_ms expires_at_ms tie_factor
-- Returns: {status, loaded, loaded_fen}: OK, ALREADY_OPEN, or MISMATCH with what was found instead;
--   UNCERTIFIED when this server's data is not certified under the caller's token.
local OK, ALREADY_OPEN, MISMATCH, UNCERTIFIED = 0, 1, 2, 3

local certificate_key, meta_key, shares_key = KEYS[1], KEYS[2], KEYS[3]
local claims_key, board_key = KEYS[4], KEYS[5]
local shares, total_fen = tonumber(ARGV[1]), tonumber(ARGV[2])

if redis.call('GET', certificate_key) ~= '@certificate@' then return {UNCERTIFIED, 0, 0} end
local meta = redis.call('HMGET', meta_key, 'state', 'loaded_fen')
local state, loaded_fen = meta[1], tonumber(meta[2] or '0')
local loaded = redis.call('LLEN', shares_key)
local claimed = redis.call('HLEN', claims_key) + redis.call('ZCARD', board_key)
if state and state ~= 'loading' then return {ALREADY_OPEN, loaded, loaded_fen} end
if not state or loaded ~= shares or loaded_fen ~= total_fen or claimed ~= 0 then
  return {MISMATCH, loaded, loaded_fen}
end

redis.call('HSET', meta_key, 'state', 'open', 'shares', ARGV[1], 'total_fen', ARGV[2],
  'opens_at_ms', ARGV[3], 'expires_at_ms', ARGV[4], 'tie_factor', ARGV[5])
return {OK, loaded, loaded_fen}
