#!lua
-- Purpose: keep a settled packet closed, and let its keys go after a time. Retiring again renews it.
-- KEYS: meta shares claims board
-- ARGV: keep_ms
-- Returns: {status}: OK, or UNKNOWN when Redis does not hold the packet.
local OK, UNKNOWN = 0, 1

local meta_key, shares_key, claims_key, board_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local keep_ms = ARGV[1]

if redis.call('EXISTS', meta_key) == 0 then return {UNKNOWN} end

if redis.call('TYPE', meta_key).ok ~= 'hash' then redis.call('UNLINK', meta_key) end
redis.call('HSET', meta_key, 'state', 'closed')
redis.call('PEXPIRE', meta_key, keep_ms)
redis.call('PEXPIRE', shares_key, keep_ms)
redis.call('PEXPIRE', claims_key, keep_ms)
redis.call('PEXPIRE', board_key, keep_ms)
return {OK}
