-- Reservations that gateways settle: records which ones are settled, and the corrections that instances must apply to their own counts. Each call uses
-- one key.
--
-- ARGV    mark, number, ttl              Marks a reservation as settled. Returns 1 if it was marked before, else 0.
--         leave, entry, capacity, ttl    Leaves a correction for an instance. Returns 0 if there are too many, else 1.
--         read, count                    Returns the oldest corrections, and removes them.
--
-- Times are in ms.

local action = ARGV[1]
local key = KEYS[1]

if action == 'mark' then
  local before = redis.call('SETBIT', key, ARGV[2], 1)
  -- Another instance, whose clock is ahead, may have marked a reservation that lives longer.
  if redis.call('PTTL', key) < tonumber(ARGV[3]) then redis.call('PEXPIRE', key, ARGV[3]) end
  return tostring(before)
end

if action == 'leave' then
  if redis.call('LLEN', key) >= tonumber(ARGV[3]) then return '0' end
  redis.call('RPUSH', key, ARGV[2])
  redis.call('PEXPIRE', key, ARGV[4])
  return '1'
end

local count = tonumber(ARGV[2])
local entries = redis.call('LRANGE', key, 0, count - 1)
if #entries > 0 then redis.call('LTRIM', key, #entries, -1) end
return entries
