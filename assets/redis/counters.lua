-- Counters of all kinds, all or nothing. Runs after clock.lua, which says what time it is.
--
-- KEYS    one a row
-- ARGV    take, check, settle, give_back or reset; then for each row:
--           kind    of the limit, as in src/limiter/limit.ts
--           cost    what it takes; when settling or giving back, what goes back, or below zero what is charged besides
--           size    the most that the limit can hand out at one moment
--           most    take, check: what this call may have at most, by what the asking instance alone has spent
--           moment  take, check, reset: of the last reset that the asking instance knows of; settle, give_back: when it was taken
--         and then what the kind reads (`columns`)
-- Answer  1 where all rows fit, 0 where not; the time; for each row what is left for the asking instance, how much was leased, and when the
--         counter was reset last, or 0. Or 2 and the time, and nothing was done: a row does not know the windows of that time.
--
-- Records expire when a new one would say the same, or some time later. One that was lost comes back, as far as the first instance to ask
-- remembers: what it has spent itself is spent. One that is there is brought down to `most`, unless it is settled: calls of an instance's
-- workers overtake each other, and what one of them gives back or charges besides would be lost or counted twice.
--
-- A record knows when it was begun. If that was after a take, it never knew of it: nothing of that take is given back to it. A settlement is:
-- whoever began the record may have counted the reservation as spent, and a budget must not lose what nobody used. Earlier versions did not
-- write when a record was begun: that is 0, long ago.
--
-- A reset begins the record anew, and says so: the moment is below zero. What was taken before is neither given back nor settled, and the own
-- count of an instance that does not know of the reset yet is not believed. Earlier versions keep the mark and do not heed it.

local MAX_TTL_MS = 315360000000 -- ten years
-- A clock that went back by less is waited for; one that went back further is believed.
local MAX_WAIT_FOR_CLOCK_MS = 1000
-- A bucket's reset is told for this long: what turns up later from before it is believed. Instances remember it for as long from when they are told
-- (src/store/resets.ts), or they would forget their own counts again and again. That of a window is told until the window is over.
local RESET_KEPT_MS = 86400000
-- No two resets of a counter have the same moment, whatever the clock does.
local TICK_MS = 0.001

local action = ARGV[1]
local isReturn = action == 'settle' or action == 'give_back'

local function whole(ms)
  return string.format('%.0f', math.min(math.max(math.ceil(ms), 1), MAX_TTL_MS))
end

local function exact(number)
  -- Where Lua turns a number into text by itself, it has 14 digits.
  return string.format('%.17g', number)
end

local function is_finite(number)
  return number - number == 0
end

-- Notes when the record of a row was begun, or reset, which is below zero.
local function know_begun(row, begun)
  -- A clock that went back must not make it younger than takes that are still to come.
  row.begun = is_finite(begun) and math.min(begun, wall) or 0
  row.reset = math.max(0, -row.begun)
end

-- Tokens that flow back continuously. A string: level, when that was true, size, rate, when the record was begun.
local bucket = {
  -- Tokens per ms; for how many ms it has had this limit; take: how many tokens to lease beyond the cost, or -1 for a counter that is
  -- settled; give_back: 1 where what the refill has made up for since then stays away.
  columns = { 'rate', 'since', 'more' },
}

-- What stands under our key and is no record of ours counts as lost: an error would take this node from every other caller too.
local function unpack_bucket(record)
  if not record or #record < 32 then return end
  local level, at, size, rate = struct.unpack('<dddd', record)
  if is_finite(level) and is_finite(at) and is_finite(size) and is_finite(rate) and rate > 0 then return level, at, size, rate end
end

function bucket.read(row)
  local record = redis.call('GET', row.key)
  local level, at, size, rate = unpack_bucket(record)
  row.at = now
  row.begun = wall
  row.reset = 0
  row.level = isReturn and row.size or math.min(row.size, row.most)
  row.left = row.level
  if not level then return end
  row.exists = true
  know_begun(row, #record >= 40 and struct.unpack('<d', record, 33) or 0)
  if action == 'give_back' and row.more > 0 then
    -- A lease goes back under the limit that it was obtained by, and that may have changed meanwhile: whoever takes next knows.
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
  if wall - row.reset >= RESET_KEPT_MS then row.reset = 0 end
  local most = row.reset > row.moment and row.size or row.most
  row.left = math.min(row.level, most)
  if row.more >= 0 then row.level = row.left end
end

function bucket.write(row)
  -- For others it may have another limit, and mean something for longer.
  local rest = row.at - now + (row.size - row.level) / row.rate
  if not row.stepped then rest = math.max(rest, redis.call('PTTL', row.key)) end
  if row.begun < 0 then rest = math.max(rest, RESET_KEPT_MS - row.begun - wall) end
  redis.call('SET', row.key, struct.pack('<ddddd', row.level, row.at, row.size, row.rate, row.begun), 'PX', whole(rest))
end

function bucket.take(row)
  -- Half of what is there at most: others want some too, and a crash loses no more.
  row.leased = math.max(0, math.min(row.more, math.floor((row.left - row.cost) / 2)))
  row.level = row.level - row.cost - row.leased
  row.left = row.left - row.cost - row.leased
  if row.cost + row.leased > 0 then bucket.write(row) end
end

function bucket.give_back(row)
  -- One that is not there is full.
  if not row.exists and row.cost > 0 then return end
  local back = row.cost
  -- Where the bucket would have been full, refill has made up for leased tokens while they were out. What it can have
  -- made up for stays away, or a window would see it twice.
  if row.more > 0 then back = math.max(0, back - math.max(0, wall - row.moment) * row.rate) end
  row.level = math.min(row.level + back, row.size)
  bucket.write(row)
end

function bucket.reset(row)
  row.level, row.left, row.at = row.size, row.size, now
  bucket.write(row)
end

-- Tokens for one window of a calendar. A hash: by the window's number what is used of it, and by the negative of that when this was begun.
local window = {
  -- The numbers of three windows in a row, and where each begins; then where the last one ends. The middle one is that of the asking
  -- instance's clock, and `most` and `moment` are about it; when settling or giving back, the one that was taken from.
  columns = { 'previous', 'previousStart', 'present', 'presentStart', 'following', 'followingStart', 'followingEnd' },
}

-- The window that counts, where it ends, and the one before it. Nothing where the time is in none of the three.
local function choose_window(row)
  if isReturn or (wall >= row.presentStart and wall < row.followingStart) then return row.present, row.followingStart, row.previous end
  if wall < row.previousStart or wall >= row.followingEnd then return end
  if wall < row.presentStart then return row.previous, row.presentStart, row.previous - 1 end
  return row.following, row.followingEnd, row.present
end

function window.read(row)
  row.number, row.ends, row.before = choose_window(row)
  if not row.number then
    row.misses = true
    return
  end
  local used = tonumber(redis.call('HGET', row.key, row.number))
  if used and not is_finite(used) then used = nil end
  row.exists = used and true
  row.used = used or 0
  know_begun(row, used and tonumber(redis.call('HGET', row.key, -row.number)) or 0)
  row.left = row.size - row.used
  if isReturn then return end
  local isBelieved = row.number == row.present and row.reset <= row.moment
  local most = isBelieved and row.most or row.size
  if not used then row.used = math.max(0, row.size - most) end
  row.left = math.max(0, math.min(row.size - row.used, most))
end

function window.write(row)
  if not row.exists then
    -- A window that ended while the next was begun is still there.
    for _, number in ipairs(redis.call('HKEYS', row.key)) do
      if math.abs(tonumber(number) or 0) < row.before then redis.call('HDEL', row.key, number) end
    end
    row.begun = row.begun < 0 and row.begun or wall
  end
  redis.call('HSET', row.key, row.number, exact(math.max(0, row.used)))
  if not row.exists or action == 'reset' then redis.call('HSET', row.key, -row.number, exact(row.begun)) end
  local rest = row.ends - wall
  -- Another window beside this one may last longer, where the clock was set back.
  if redis.call('PTTL', row.key) < rest then redis.call('PEXPIRE', row.key, whole(rest)) end
end

function window.take(row)
  if row.cost == 0 then return end
  row.used = row.used + row.cost
  row.left = row.left - row.cost
  window.write(row)
end

function window.give_back(row)
  -- One that is not there has nothing used that could go back; nor is a debt carried into a window that is over.
  local isOver = wall < row.presentStart or wall >= row.ends
  if not row.exists and (row.cost > 0 or isOver) then return end
  row.used = row.used - row.cost
  window.write(row)
end

function window.reset(row)
  row.used, row.left = 0, row.size
  window.write(row)
end

-- What a kind provides. Each works on one row, which has the arguments of its columns by name.
--   columns    the arguments that it reads beside those of all rows, in the order of script-arguments.ts
--   read       reads the record: `exists`, `left` (for the asking instance, so at most `most`, unless the record was reset since `moment`), `begun` and `reset`
--              (know_begun), and what it will write; or sets `misses`, and nothing is done in any row
--   take       takes `cost`, and leases up to `more` where it can: writes the record, `left` and `leased`
--   give_back  gives `cost` back, or charges it where it is below zero; never called for a record that has nothing to do with the take
--   reset      makes the record as new, begun at `begun`, which is below zero; it is kept for RESET_KEPT_MS, or as long as its window
--   write      writes a record whose clock went back (`stepped`), where it has one
local KINDS = { [1] = bucket, [2] = window }
local COLUMNS = { 'cost', 'size', 'most', 'moment' }

local function covers(row)
  return row.cost == 0 or row.left >= row.cost
end

-- Whether a counter has nothing to do with a take: it was reset since, or begun since by whoever did not know of it.
local function is_unrelated(row)
  if row.reset > 0 then return row.moment <= row.reset end
  return action == 'give_back' and row.exists and row.begun > row.moment
end

local at = 1
local function read_columns(row, columns)
  for _, name in ipairs(columns) do
    at = at + 1
    row[name] = tonumber(ARGV[at])
  end
end

local rows = {}
local fits = true

for i, key in ipairs(KEYS) do
  local row = { key = key, leased = 0 }
  read_columns(row, { 'kind' })
  local kind = KINDS[row.kind]
  read_columns(row, COLUMNS)
  read_columns(row, kind.columns)
  kind.read(row)
  if row.misses then return '2 ' .. exact(wall) end
  fits = action ~= 'take' and action ~= 'check' or (covers(row) and fits)
  rows[i] = row
end

local answer = { fits and 1 or 0, exact(wall) }
for _, row in ipairs(rows) do
  local kind = KINDS[row.kind]
  if isReturn then
    if row.cost ~= 0 and not is_unrelated(row) then kind.give_back(row) end
  elseif action == 'reset' then
    -- The moments of resets rise, whatever the clock does: else whoever knows of the last one would not hear of this one.
    row.reset = math.max(wall, row.reset + TICK_MS, row.moment + TICK_MS)
    row.begun = -row.reset
    kind.reset(row)
  elseif action == 'take' and fits then
    kind.take(row)
  elseif row.stepped and action == 'take' then
    -- Or an empty bucket would be read like this again and again, until the clock is where it was.
    kind.write(row)
  end
  answer[#answer + 1] = exact(row.left)
  answer[#answer + 1] = exact(row.leased)
  answer[#answer + 1] = exact(row.reset)
end
return table.concat(answer, ' ')
