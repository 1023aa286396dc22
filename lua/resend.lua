#!lua
-- Purpose: write claims of a packet to the outbox once more. Booking them again changes nothing.
-- KEYS: meta claims outbox
-- ARGV: packet_id user_id...
-- Returns: {status, resent}: OK, UNKNOWN when Redis does not hold the packet, INCONSISTENT when a
--   recorded claim is not one.
local OK, UNKNOWN, INCONSISTENT = 0, 1, 2

local meta_key, claims_key, outbox_key = KEYS[1], KEYS[2], KEYS[3]
local packet_id, users = ARGV[1], #ARGV - 1

redis.call('XLEN', outbox_key)
if redis.call('EXISTS', meta_key) == 0 then return {UNKNOWN, 0} end

local held = redis.call('HMGET', claims_key, unpack(ARGV, 2))
local bodies = {}
for i = 1, users do
  if held[i] then
    local user_id = ARGV[i + 1]
    local seq, amount_fen, claimed_at_ms = string.match(held[i], '^(%d+):(%d+):(%d+)$')
    if not seq or string.find(user_id, '[^%w_-]') then return {INCONSISTENT, 0} end
    bodies[#bodies + 1] = '{"packet_id":"' .. packet_id .. '","claimed_at_ms":' .. claimed_at_ms
      .. ',"claims":[[' .. seq .. ',' .. amount_fen .. ',"' .. user_id .. '"]]}'
  end
end
for i = 1, #bodies do redis.call('XADD', outbox_key, '*', 'claims', bodies[i]) end
return {OK, #bodies}
