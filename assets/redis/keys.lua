-- Stores the keys that a fleet has issued, as digests. It is appended to clock.lua, which sets `time` and `wall`.
--
-- KEYS    facts, a hash:
--           epoch    random text, named by the first instance that writes; a different one means that Redis has lost its data
--           changes  number of the last change
--           size     number of keys
--           sum      sum of a hash of each key's id and moment, modulo 2^48: two that know the same keys have the same sum
--         entries, a hash by id: 'moment forget revoked text', times in microseconds; `forget` is when the entry can be removed, 0 for never; the text is '-' for a key that
--           was forgotten, so that no instance adds it again
--         order, a sorted set: ids by the number of their last change
--         ends, a sorted set: ids by `forget`
--         revoked, a sorted set: the ids of all keys that were ever revoked, each scored by itself as a number. `facts` has their count `revoked` and sum `revoked_sum`
-- ARGV    poll, epoch, last known change, count, kept
--           Returns the epoch, size, sum, count and sum of revoked keys, the number of the last change that is returned, and id and entry of up to `count` changes. Starts from the first one if the epoch differs, or if this Redis does not know that change.
--         put, epoch, capacity, kept, then for each: id, expected moment or '-', end or '-', '1' if it is revoked or '0', text
--           Replaces entries. `kept` is how long an entry is remembered after its end. Returns for each its moment; 'changed' if there is a later state than
--           the expected one; 'revoked' if the key was revoked before and nothing else is known of it; 'full' if there are too many.
--         add, epoch, capacity, then for each: id, moment, forget, '1' or '0', text
--           Adds entries that already have a moment, unless a later one is stored. A revoked one wins over any other.
--         offer, epoch, then for each: id, moment, '1' or '0'
--           Returns the ids of those that are missing here, or later than what is stored here.
--         revoked, epoch, last known id as a number or '-1', count
--           Returns the next `count` ids of revoked keys.
--         keep, epoch, kept, then ids
--           Remembers that these keys are revoked, and revokes those that are here and are not.

local CLEANED = 100 -- entries forgotten in one call, at most
local KEPT_MS = 31622400000 -- a year after the last poll of any instance
local MODULUS = 281474976710656

local facts, entries, order, ends, revoked_ids = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local action = ARGV[1]
local micros = time[1] * 1000000 + time[2]

local function exact(number)
  return string.format('%.0f', number)
end

local function fact(name)
  return tonumber(redis.call('HGET', facts, name)) or 0
end

local function hash(id, moment)
  return tonumber(string.sub(redis.sha1hex(id .. ' ' .. exact(moment)), 1, 12), 16)
end

local function count(id, moment, sign)
  redis.call('HSET', facts, 'size', exact(fact('size') + sign), 'sum', exact((fact('sum') + sign * hash(id, moment)) % MODULUS))
end

-- Returns moment and text of an entry, and whether it is revoked; nothing if edge did not write it.
local function read_entry(id)
  local entry = redis.call('HGET', entries, id)
  if not entry then return end
  local moment, forget, revoked, text = string.match(entry, '^(%d+) (%d+) ([01]) (.*)$')
  if moment then return tonumber(moment), text, revoked == '1' end
end

-- Numbers are derived from the time, so that numbers lost in a failover are not used again.
local function next_change()
  local number = math.max(micros, fact('changes') + 1)
  redis.call('HSET', facts, 'changes', exact(number))
  return exact(number)
end

local function write(id, moment, forget, revoked, text)
  local there, there_text = read_entry(id)
  if there and there_text ~= '-' then count(id, there, -1) end
  if text ~= '-' then count(id, moment, 1) end
  redis.call('HSET', entries, id, table.concat({ exact(moment), exact(forget), revoked, text }, ' '))
  redis.call('ZADD', order, next_change(), id)
  if forget > 0 then redis.call('ZADD', ends, exact(forget), id) else redis.call('ZREM', ends, id) end
end

local function was_revoked(id)
  local number = exact(tonumber(id, 16))
  return #redis.call('ZRANGEBYSCORE', revoked_ids, number, number) > 0
end

-- Remembers for good that a key is revoked.
local function keep_revoked(id)
  local number = tonumber(id, 16)
  if redis.call('ZADD', revoked_ids, 'NX', exact(number), id) == 0 then return end
  redis.call('HSET', facts, 'revoked', exact(fact('revoked') + 1), 'revoked_sum', exact((fact('revoked_sum') + number) % MODULUS))
end

-- Counts the ids anew if some are missing, because somebody removed them or Redis has lost them: the instances that still know them must notice.
local function check_revoked()
  local counted = fact('revoked')
  -- ZCARD would say it, but access lists of earlier builds lack it. There is a last one, and none after it.
  if #redis.call('ZRANGE', revoked_ids, math.max(counted - 1, 0), counted) == math.min(counted, 1) then return end
  local held, sum = 0, 0
  repeat
    local page = redis.call('ZRANGE', revoked_ids, held, held + 999)
    for _, id in ipairs(page) do sum = (sum + (tonumber(id, 16) or 0)) % MODULUS end
    held = held + #page
  until #page == 0
  redis.call('HSET', facts, 'revoked', exact(held), 'revoked_sum', exact(sum))
end

-- What is over is forgotten, and that it was is remembered for as long again.
local function clean(kept)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', exact(micros), 'LIMIT', 0, CLEANED)) do
    local moment, text, revoked = read_entry(id)
    if moment and text ~= '-' then
      -- A build that did not remember revoked keys for good may have revoked this one.
      if revoked then keep_revoked(id) end
      write(id, moment, micros + kept, '1', '-')
    else
      redis.call('HDEL', entries, id)
      redis.call('ZREM', order, id)
      redis.call('ZREM', ends, id)
    end
  end
end

-- A fleet without keys leaves nothing in Redis: only what is written names the epoch.
if action == 'put' or action == 'add' or action == 'keep' then redis.call('HSETNX', facts, 'epoch', ARGV[2]) end

if action == 'poll' then
  clean(tonumber(ARGV[5]))
  check_revoked()
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, KEPT_MS) end
  local epoch = redis.call('HGET', facts, 'epoch') or ARGV[2]
  -- After a failover, the new master may lack the last changes and, if its clock is behind, reuse their numbers.
  local follows = epoch == ARGV[2] and fact('changes') >= tonumber(ARGV[3])
  local after = follows and ARGV[3] or '0'
  local reply = { epoch, exact(fact('size')), exact(fact('sum')), exact(fact('revoked')), exact(fact('revoked_sum')), after }
  local found = redis.call('ZRANGEBYSCORE', order, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[4])
  for i = 1, #found, 2 do
    local entry = redis.call('HGET', entries, found[i])
    if entry then
      reply[#reply + 1] = found[i]
      reply[#reply + 1] = entry
    end
    reply[6] = exact(tonumber(found[i + 1]))
  end
  return reply
end

if action == 'put' then
  local capacity, kept = tonumber(ARGV[3]), tonumber(ARGV[4])
  local reply = {}
  for i = 5, #ARGV, 5 do
    local id, expected, expires, revoked, text = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4]
    local there, there_text = read_entry(id)
    local is_gone = there_text == '-'
    if is_gone then there = nil end
    -- An earlier state than the expected one, or none, means that Redis has lost something; the new state brings it back.
    local is_changed = (there or 0) > (expected or 0)
    -- A revocation is never refused because somebody else has changed the key.
    if (is_gone and expected) or (is_changed and revoked == '0') then
      reply[#reply + 1] = 'changed'
    elseif revoked == '0' and was_revoked(id) then
      reply[#reply + 1] = 'revoked'
    elseif not there and fact('size') >= capacity then
      reply[#reply + 1] = 'full'
    else
      local moment = math.max(micros, (there or 0) + 1, (expected or 0) + 1)
      local forget = revoked == '1' and moment + kept or expires and expires + kept or 0
      if revoked == '1' then keep_revoked(id) end
      write(id, moment, forget, revoked, text)
      reply[#reply + 1] = exact(moment)
    end
  end
  return reply
end

-- Whether an entry is not here yet.
local function is_news(id, moment, revoked)
  local there, _, there_revoked = read_entry(id)
  if not there then return true end
  if (revoked == '1') ~= there_revoked then return revoked == '1' end
  return moment > there
end

if action == 'add' then
  local capacity = tonumber(ARGV[3])
  for i = 4, #ARGV, 5 do
    local id, moment, forget, revoked, text = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4]
    local is_over = forget > 0 and forget <= micros
    if revoked == '1' then keep_revoked(id) elseif was_revoked(id) then is_over = true end
    if not is_over and is_news(id, moment, revoked) and (read_entry(id) or fact('size') < capacity) then write(id, moment, forget, revoked, text) end
  end
  return { 'added' }
end

if action == 'revoked' then
  return redis.call('ZRANGEBYSCORE', revoked_ids, '(' .. ARGV[3], '+inf', 'LIMIT', 0, ARGV[4])
end

if action == 'keep' then
  for i = 4, #ARGV do
    local id = ARGV[i]
    keep_revoked(id)
    local there, text, revoked = read_entry(id)
    if there and text ~= '-' and not revoked then
      local moment = math.max(micros, there + 1)
      write(id, moment, moment + tonumber(ARGV[3]), '1', text)
    end
  end
  return { 'kept' }
end

local wanted = {}
for i = 3, #ARGV, 3 do
  if is_news(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]) then wanted[#wanted + 1] = ARGV[i] end
end
return wanted
