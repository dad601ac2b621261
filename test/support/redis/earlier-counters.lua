-- Token buckets and daily budgets, all or nothing. Runs after clock.lua, which says what time it is.
--
-- KEYS    one a row
-- ARGV    take, check, settle or give_back; then for each row:
--           cost   what it takes; when settling or giving back, what goes back, or below zero what is charged besides
--           size   the most that the limit can hand out at one moment
--           rate   tokens per ms; 0: a limit of a UTC day
--           most   what this call may have at most, by what the asking instance alone has spent; give_back: when it was taken
--           since  for how many ms a bucket has had this limit; of a day: which one it is, or was taken from
--           more   take: how many tokens to lease beyond the cost, or -1 for a counter that is settled; give_back: 1 where what the refill
--                  has made up for since then stays away
-- Answer  whether all rows fit; the time; for each row what is left for the asking instance and how much was leased
--
-- A bucket is a string: level, when that was true, size, rate, when the record was begun. A day is a hash: by day what is spent, and by the
-- day's negative when that was begun. Both expire when a new one would say the same, or some time later. One that was lost comes back, as far as
-- the first instance to ask remembers: what it has spent itself is spent. One that is there is brought down to `most`, unless it is settled:
-- calls of an instance's workers overtake each other, and what one of them gives back or charges besides would be lost or counted twice.
--
-- A record that was begun after a take never knew of it: nothing of that take is given back to it. A settlement is: whoever began the record may
-- have counted the reservation as spent, and a budget must not lose what nobody used. Earlier versions did not write when a record was
-- begun: that is 0, long ago.

local DAY_MS = 86400000
local MAX_TTL_MS = 315360000000 -- ten years
-- A clock that went back by less is waited for; one that went back further is believed.
local MAX_WAIT_FOR_CLOCK_MS = 1000

local action = ARGV[1]
local isReturn = action == 'settle' or action == 'give_back'
local today = math.floor(wall / DAY_MS)

local function whole(ms)
  return string.format('%.0f', math.min(math.max(math.ceil(ms), 1), MAX_TTL_MS))
end

local function is_finite(number)
  return number - number == 0
end

-- What stands under our key and is no record of ours counts as lost: an error would take this node from every other caller too.
local function unpack_bucket(record)
  if not record or #record < 32 then return end
  local level, at, size, rate = struct.unpack('<dddd', record)
  if is_finite(level) and is_finite(at) and is_finite(size) and is_finite(rate) and rate > 0 then return level, at, size, rate end
end

local function read_bucket(row)
  local record = redis.call('GET', row.key)
  local level, at, size, rate = unpack_bucket(record)
  row.at = now
  row.begun = wall
  row.level = isReturn and row.size or math.min(row.size, row.most)
  row.left = row.level
  if not level then return end
  row.exists = true
  -- A clock that went back must not make it younger than takes that are still to come.
  row.begun = #record >= 40 and math.min(struct.unpack('<d', record, 33), wall) or 0
  if action == 'give_back' and row.more > 0 then
    -- A lease goes back under the limit that it was had by, and that may have changed meanwhile: whoever takes next knows.
    row.level, row.at, row.size, row.rate = level, at, size, rate
    return
  end
  row.stepped = at > now + MAX_WAIT_FOR_CLOCK_MS
  if row.stepped then at = now end
  local changed = now - row.since
  if at < changed and (size ~= row.size or rate ~= row.rate) then
    -- Last touched under another limit: until the change, tokens came back at its rate and up to its size.
    level = math.min(level + (changed - at) * rate, size)
    at = changed
  end
  if at < now then level = level + (now - at) * row.rate end
  -- Never back in time: the refill between two moments is granted once.
  row.at = math.max(at, now)
  row.level = math.min(level, row.size)
  if isReturn then return end
  row.left = math.min(row.level, row.most)
  if row.more >= 0 then row.level = row.left end
end

local function write_bucket(row)
  -- For others it may have another limit, and mean something for longer.
  local rest = row.at - now + (row.size - row.level) / row.rate
  if not row.stepped then rest = math.max(rest, redis.call('PTTL', row.key)) end
  redis.call('SET', row.key, struct.pack('<ddddd', row.level, row.at, row.size, row.rate, row.begun), 'PX', whole(rest))
end

local function read_day(row, day)
  local used = tonumber(redis.call('HGET', row.key, day))
  if used and not is_finite(used) then used = nil end
  row.exists = used and true
  row.day = day
  row.used = used or 0
  if isReturn then
    row.begun = tonumber(redis.call('HGET', row.key, -day)) or 0
    row.left = row.size - row.used
    return
  end
  local most = row.since == day and row.most or row.size
  if not used then row.used = math.max(0, row.size - most) end
  row.left = math.max(0, math.min(row.size - row.used, most))
end

local function write_day(row)
  if not row.exists then
    -- A day that ended while the next was begun is still there.
    for _, day in ipairs(redis.call('HKEYS', row.key)) do
      if math.abs(tonumber(day) or 0) < row.day - 1 then redis.call('HDEL', row.key, day) end
    end
  end
  redis.call('HSET', row.key, row.day, string.format('%.17g', math.max(0, row.used)))
  if not row.exists then redis.call('HSET', row.key, -row.day, string.format('%.17g', wall)) end
  local rest = (row.day + 1) * DAY_MS - wall
  -- Another day beside this one may last longer, where the clock was set back.
  if redis.call('PTTL', row.key) < rest then redis.call('PEXPIRE', row.key, whole(rest)) end
end

local function covers(row)
  if row.cost == 0 then return true end
  return row.left >= row.cost
end

local function take(row)
  if row.rate == 0 then
    if row.cost == 0 then return end
    row.used = row.used + row.cost
    row.left = row.left - row.cost
    write_day(row)
    return
  end
  -- Half of what is there at most: others want some too, and a crash loses no more.
  row.leased = math.max(0, math.min(row.more, math.floor((row.left - row.cost) / 2)))
  row.level = row.level - row.cost - row.leased
  row.left = row.left - row.cost - row.leased
  if row.cost + row.leased > 0 then write_bucket(row) end
end

local function give_back(row)
  if row.cost == 0 then return end
  -- A counter that is not there has nothing spent: a full bucket, or a day that is over.
  if not row.exists and (row.cost > 0 or (row.rate == 0 and row.day ~= today)) then return end
  if action == 'give_back' and row.begun > row.most then return end
  if row.rate == 0 then
    row.used = row.used - row.cost
    write_day(row)
  else
    local back = row.cost
    -- Where the bucket would have been full, refill has made up for leased tokens while they were out. What it can have
    -- made up for stays away, or a window would see it twice.
    if row.more > 0 then back = math.max(0, back - math.max(0, wall - row.most) * row.rate) end
    row.level = math.min(row.level + back, row.size)
    write_bucket(row)
  end
end

local rows = {}
local fits = true

for i, key in ipairs(KEYS) do
  local row = { key = key, leased = 0 }
  for column, name in ipairs({ 'cost', 'size', 'rate', 'most', 'since', 'more' }) do
    row[name] = tonumber(ARGV[i * 6 - 5 + column])
  end
  if row.rate > 0 then read_bucket(row) else read_day(row, isReturn and row.since or today) end
  fits = isReturn or (covers(row) and fits)
  rows[i] = row
end

local answer = { fits and 1 or 0, string.format('%.17g', wall) }
for _, row in ipairs(rows) do
  if isReturn then
    give_back(row)
  elseif action == 'take' and fits then
    take(row)
  elseif row.stepped then
    -- Or an empty bucket would be read like this again and again, until the clock is where it was.
    write_bucket(row)
  end
  answer[#answer + 1] = string.format('%.17g', row.left)
  -- Where Lua turns a number into text by itself, it has 14 digits.
  answer[#answer + 1] = string.format('%.17g', row.leased)
end
return table.concat(answer, ' ')
