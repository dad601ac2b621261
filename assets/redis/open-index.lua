-- Where there may be records of requests in flight (open.lua): a sorted set of `digest of the counter:instance`, by when the instance should have been heard again.
-- Follows clock.lua.
--
-- ARGV    beat, ms, members...   They are heard of again within that time. Returns for each member 1 if it was not there, else 0.
--         due, ms, count         Returns members whose time has passed. No other instance is given them for that long.

local key = KEYS[1]
local until_ms = wall + tonumber(ARGV[2])

if ARGV[1] == 'beat' then
  local added = {}
  for i = 3, #ARGV do added[i - 2] = redis.call('ZADD', key, until_ms, ARGV[i]) end
  redis.call('PEXPIRE', key, 86400000)
  return added
end

local due = redis.call('ZRANGEBYSCORE', key, '-inf', wall, 'LIMIT', 0, ARGV[3])
for _, member in ipairs(due) do redis.call('ZADD', key, until_ms, member) end
return due
