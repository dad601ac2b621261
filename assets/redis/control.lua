-- Stores what operators change for all instances of a fleet: overrides and resets of counters. It is appended to clock.lua, which sets `wall`.
--
-- KEYS    facts, a hash:
--           epoch       random text, named by the first instance that writes; a different one means that Redis has lost its data
--           changes     number of the last change
--           moment      latest moment of any override
--           digest_key  'since key': the key of digests of callers, and when it was created
--         then three keys for overrides, and the same three for resets:
--           entries, a hash by subject: 'moment forget until id text'; `until` is when the entry ends, and `forget` is when it can be removed
--           order, a sorted set: subjects by the number of their last change
--           ends, a sorted set: subjects by `forget`
-- ARGV    poll, epoch, latest moment, digest key, count, last known change of overrides, last known change of resets
--           Returns the time, the epoch, the latest moment and the digest key; then, for overrides and for resets, the number of entries, the
--           number of the last change that is returned, and subject and entry of up to `count` changes after the last known one. Starts from the
--           first entry if the epoch differs, or if this Redis does not know those changes. Stores the given moment if it is later than the stored
--           one, and the given digest key if it is older or none is stored; '0 key' offers a new key.
--         put, epoch, capacity, delay, subject, id or '-', expected id or '-', until, text
--           Replaces the entry of a subject. The new entry comes into force at its moment: `delay` ms from now, but later than every moment before.
--           Returns 'put', moment and `forget`; or 'exists' and the current id (or '-') if that is not the expected one; or 'full' if there are too
--           many entries. If the entry with this id is stored already, returns it and changes nothing.
--         add, epoch, 'overrides' or 'resets', capacity, then subject and entry for each
--           Adds entries that already have a moment, unless a later one of the same subject is stored. Beyond the capacity, removes the oldest.
--
-- If a subject has two entries, the one with the later moment wins. The id '-' marks the end of an override, or a reset.

local CLEANED = 100 -- entries removed in one call, at most
local KEPT_MS = 31622400000 -- a year after the last poll of any instance
local TICK_MS = 0.001

local facts = KEYS[1]
local overrides = { entries = KEYS[2], order = KEYS[3], ends = KEYS[4] }
local resets = { entries = KEYS[5], order = KEYS[6], ends = KEYS[7] }
local action = ARGV[1]

local function exact(number)
  return string.format('%.17g', number)
end

-- Returns moment, `forget`, `until` and id of an entry; nothing if edge did not write it.
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

-- Numbers are derived from the time, so that numbers lost in a failover are not used again.
local function next_change()
  local number = math.max(math.floor(wall * 1000), last_change() + 1)
  redis.call('HSET', facts, 'changes', exact(number))
  return exact(number)
end

-- Keeps the older of two keys, because digests were made with it.
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

-- Returns the number of entries, the number of the last change returned, and up to `count` changes after `after`.
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
  -- After a failover, the new master may lack the last changes and, if its clock is behind, reuse their numbers.
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
  -- The entry must be kept as long as the one that it replaces: an instance that does not know it yet would add that one again.
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
