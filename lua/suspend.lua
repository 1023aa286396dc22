#!lua
-- Purpose: stop all grabs of a packet so that it can be rebuilt. The newest call owns the rebuilding.
--   What the packet holds stays as it is.
-- KEYS: meta
-- ARGV: rebuild
-- Returns: {status}: OK.
local OK = 0

local meta_key = KEYS[1]

if redis.call('TYPE', meta_key).ok ~= 'hash' then redis.call('UNLINK', meta_key) end
redis.call('HSET', meta_key, 'state', 'rebuilding', 'rebuild', ARGV[1], 'restored', '0', 'restored_fen', '0')
return {OK}
