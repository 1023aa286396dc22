#!lua
-- Purpose: close a packet for good and tell what was claimed. Closing again tells the same.
-- KEYS: meta shares claims
-- ARGV: (none)
-- Returns: {status, claimed, remaining}: OK, UNKNOWN when Redis does not hold the packet, LOADING
--   when it never opened, INCONSISTENT when claims and remaining shares do not add up.
local OK, UNKNOWN, LOADING, INCONSISTENT = 0, 1, 2, 3

local meta_key, shares_key, claims_key = KEYS[1], KEYS[2], KEYS[3]

local meta = redis.call('HMGET', meta_key, 'state', 'shares')
local state, shares = meta[1], tonumber(meta[2])
local remaining = redis.call('LLEN', shares_key)
local claimed = redis.call('HLEN', claims_key)
if not state then return {UNKNOWN, 0, 0} end
if state == 'loading' then return {LOADING, 0, 0} end
if claimed + remaining ~= shares then return {INCONSISTENT, claimed, remaining} end

redis.call('HSET', meta_key, 'state', 'closed')
return {OK, claimed, remaining}
