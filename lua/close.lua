#!lua
-- Purpose: close a packet for good, once it has expired or sold out, and tell what was claimed.
--   Closing again tells the same.
-- KEYS: certificate meta shares claims
-- ARGV: (none)
-- Returns: {status, claimed, remaining}: OK, UNKNOWN when Redis does not hold the packet, LOADING
--   when it never opened or is being rebuilt, INCONSISTENT when claims and remaining shares do not
--   add up, NOT_DUE when it can still be grabbed by this server's clock, UNCERTIFIED when this
--   server's data is not certified under the caller's token.
local OK, UNKNOWN, LOADING, INCONSISTENT, UNCERTIFIED, NOT_DUE = 0, 1, 2, 3, 4, 5

local certificate_key, meta_key, shares_key, claims_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

if redis.call('GET', certificate_key) ~= '@certificate@' then return {UNCERTIFIED, 0, 0} end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local meta = redis.call('HMGET', meta_key, 'state', 'shares', 'expires_at_ms')
local state, shares, expires_at_ms = meta[1], tonumber(meta[2]), tonumber(meta[3])
local remaining = redis.call('LLEN', shares_key)
local claimed = redis.call('HLEN', claims_key)
if not state then return {UNKNOWN, 0, 0} end
if state == 'loading' or state == 'rebuilding' then return {LOADING, 0, 0} end
if claimed + remaining ~= shares then return {INCONSISTENT, claimed, remaining} end
if state == 'open' and remaining > 0 and now_ms < expires_at_ms then
  return {NOT_DUE, claimed, remaining}
end

redis.call('HSET', meta_key, 'state', 'closed')
return {OK, claimed, remaining}
