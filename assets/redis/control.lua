-- What operators change for all instances of a fleet: overrides, and resets of counters. Runs after clock.lua, which sets the time.
--
-- KEYS    facts, a hash: `epoch` (a random text, new when data was lost), `changes` (the number of the last one), `moment` (the latest), `digest_key` ('since key')
--         then for overrides, and after them for resets:
--           entries, a hash by subject: 'moment forget until id text', where `forget` is when it need not be remembered any more, and `until` when it is over
--           order, a sorted set: subjects by the number of their last change
--           ends, a sorted set: subjects by `forget`
-- ARGV    poll, epoch, latest moment, digest key, count, change, change
--           Returns the time, the epoch, the latest moment, the digest key, and for both how many entries there are, and what was changed after that change: the
--           number of the last change returned, and subject and entry of each. If the epoch is another, or that change has not been made here, all that there
--           is. Keeps the moment if it is later, and the digest key if it is older or there is none; '0 key' is a new one.
--         put, epoch, capacity, delay, subject, id or '-', id that must be there or '-', until, text
--           Puts an entry in the place of another. It gets a moment: `delay` ms from now, later than all before. Returns 'put', its moment and `forget`; 'exists'
--           and the id that is there, or '-', if that is another one; 'full' if there are too many. The same entry put again is the one that is there.
--         add, epoch, what ('overrides' or 'resets'), capacity, then subject and entry of each
--           Adds entries that have moments, where they are later than those that are there. Beyond the capacity, the oldest ones are dropped.
--
-- Of two entries of a subject the later one counts. The id '-' is that of an entry that ends another one, or of a reset.

local CLEANED = 100 -- in one call
local KEPT_MS = 31622400000 -- a year after the last instance has asked
local TICK_MS = 0.001

local facts = KEYS[1]
local overrides = { entries = KEYS[2], order = KEYS[3], ends = KEYS[4] }
local resets = { entries = KEYS[5], order = KEYS[6], ends = KEYS[7] }
local action = ARGV[1]

local function exact(number)
  return string.format('%.17g', number)
end

-- Moment, `forget`, `until` and id of an entry; nothing if it is not one of ours.
local function read_entry(entry)
  if not entry then return end
  local moment, forget, ends, id = string.match(entry, '^(%S+) (%S+) (%S+) (%S+) ')
  moment, forget, ends = tonumber(moment), tonumber(forget), tonumber(ends)
  if moment and forget and ends then return moment, forget, ends, id end
end

local function remove(map, subject)
  redis.call('HDEL', map.entries, subject)
  redis.call('ZREM', map.order, subject)
  redis.call('ZREM', map.ends, subject)
end

local function clean(map)
  for _, subject in ipairs(redis.call('ZRANGEBYSCORE', map.ends, '-inf', exact(wall), 'LIMIT', 0, CLEANED)) do remove(map, subject) end
end

local function latest_moment()
  return tonumber(redis.call('HGET', facts, 'moment')) or 0
end

local function last_change()
  return tonumber(redis.call('HGET', facts, 'changes')) or 0
end

-- By the time, so that numbers that a failover has lost are not used again.
local function next_change()
  local number = math.max(math.floor(wall * 1000), last_change() + 1)
  redis.call('HSET', facts, 'changes', exact(number))
  return exact(number)
end

-- Of two keys the older one: that is what digests were made with.
local function keep_digest_key(offered)
  local there = redis.call('HGET', facts, 'digest_key')
  local thereSince = there and tonumber(string.match(there, '^(%S+) %x+$'))
  local since, key = string.match(offered, '^(%S+) (%S+)$')
  if since == '0' then
    if thereSince then return end
    offered = exact(wall) .. ' ' .. key
  elseif thereSince and thereSince <= tonumber(since) then
    return
  end
  redis.call('HSET', facts, 'digest_key', offered)
end

local function keep_moment(moment)
  if moment > latest_moment() then redis.call('HSET', facts, 'moment', exact(moment)) end
end

local function write(map, subject, entry, moment, forget)
  redis.call('HSET', map.entries, subject, entry)
  redis.call('ZADD', map.order, next_change(), subject)
  redis.call('ZADD', map.ends, exact(forget), subject)
  if map == overrides then keep_moment(moment) end
end

-- What was changed after that change, at most `count` of it.
local function changed(map, after, count)
  local reply = { redis.call('HLEN', map.entries), after }
  local found = redis.call('ZRANGEBYSCORE', map.order, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #found, 2 do
    local entry = redis.call('HGET', map.entries, found[i])
    if entry then
      reply[#reply + 1] = found[i]
      reply[#reply + 1] = entry
    end
    reply[2] = found[i + 1]
  end
  return reply
end

redis.call('HSETNX', facts, 'epoch', ARGV[2])

if action == 'poll' then
  clean(overrides)
  clean(resets)
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, KEPT_MS) end
  local latest = latest_moment()
  keep_moment(tonumber(ARGV[3]))
  keep_digest_key(ARGV[4])
  local epoch = redis.call('HGET', facts, 'epoch')
  -- A replica that took over may lack the last changes, and its clock may be behind: it would use their numbers again.
  local isSame = epoch == ARGV[2] and last_change() >= math.max(tonumber(ARGV[6]), tonumber(ARGV[7]))
  return {
    exact(wall),
    epoch,
    exact(latest),
    redis.call('HGET', facts, 'digest_key'),
    changed(overrides, isSame and ARGV[6] or '0', ARGV[5]),
    changed(resets, isSame and ARGV[7] or '0', ARGV[5]),
  }
end

if action == 'put' then
  clean(overrides)
  local subject, id, expected, ends, text = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
  local entry = redis.call('HGET', overrides.entries, subject)
  local moment, forget, thereEnds, there = read_entry(entry)
  if not moment or thereEnds <= wall then there = '-' end
  if there ~= '-' and there == id then return { 'put', exact(moment), exact(forget) } end
  if there ~= expected then return { 'exists', there } end
  if not entry and redis.call('HLEN', overrides.entries) >= tonumber(ARGV[3]) then return { 'full' } end
  moment = math.max(wall + tonumber(ARGV[4]), latest_moment() + TICK_MS)
  -- An instance that has not heard of this one must not bring back what it replaces.
  forget = math.max(ends, forget or 0)
  write(overrides, subject, table.concat({ exact(moment), exact(forget), exact(ends), id, text }, ' '), moment, forget)
  return { 'put', exact(moment), exact(forget) }
end

local map = ARGV[3] == 'overrides' and overrides or resets
for i = 5, #ARGV, 2 do
  local subject, entry = ARGV[i], ARGV[i + 1]
  local moment, forget = read_entry(entry)
  local there = read_entry(redis.call('HGET', map.entries, subject))
  if moment and forget > wall and not (there and there >= moment) then write(map, subject, entry, moment, forget) end
end
local surplus = redis.call('HLEN', map.entries) - tonumber(ARGV[4])
if surplus > 0 then
  for _, subject in ipairs(redis.call('ZRANGE', map.order, 0, surplus - 1)) do remove(map, subject) end
end
return { 'added' }
