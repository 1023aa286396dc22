#!lua
-- Purpose: end the rebuilding of a packet, after count and sum have been found equal to what MySQL
--   says: it is grabbed again, or stays closed where its books are being closed.
-- KEYS: meta shares claims
-- ARGV: rebuild shares total_fen opens_at_ms expires_at_ms tie_factor state
-- Returns: {status, restored, restored_fen}: OK; SUPERSEDED when another rebuild has begun since;
--   MISMATCH with what was found instead.
local OK, SUPERSEDED, MISMATCH = 0, 1, 2

local meta_key, shares_key, claims_key = KEYS[1], KEYS[2], KEYS[3]
local rebuild, shares, total_fen, opens_at_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local expires_at_ms, tie_factor, state = ARGV[5], ARGV[6], ARGV[7]

local meta = redis.call('HMGET', meta_key, 'state', 'rebuild', 'restored_fen')
local restored_fen = tonumber(meta[3] or '0')
local restored = redis.call('LLEN', shares_key) + redis.call('HLEN', claims_key)
if meta[1] ~= 'rebuilding' or meta[2] ~= rebuild then return {SUPERSEDED, restored, restored_fen} end
if restored ~= shares or restored_fen ~= total_fen then return {MISMATCH, restored, restored_fen} end

redis.call('HDEL', meta_key, 'rebuild', 'restored', 'restored_fen')
redis.call('HSET', meta_key, 'state', state, 'shares', ARGV[2], 'total_fen', ARGV[3], 'loaded_fen', ARGV[3],
  'opens_at_ms', opens_at_ms, 'expires_at_ms', expires_at_ms, 'tie_factor', tie_factor)
return {OK, restored, restored_fen}
