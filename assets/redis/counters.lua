-- Counters of all kinds, all or nothing. Runs after clock.lua, which sets the time.
--
-- KEYS    one per row
-- ARGV    take, check, settle, refund, give_back, renew or reset
--         known  take, check, reset: the moment of the last change of overrides that the calling instance knows and that is in force there, or 0
--         then for each row:
--           kind    of the limit, as in src/limiter/limit.ts
--           cost    tokens to take; for settle, refund and give_back, tokens to give back, or below zero to charge; for renew, holds to move
--           size    the most that the limit can grant at one moment
--           most    take, check: the most that can be left, given what the calling instance alone has spent
--           moment  take, check, reset: the last reset that the calling instance knows; settle, refund, give_back, renew: when it was taken
--           over    1 if a request passes while anything is left, whatever it takes (canOverdraw in src/limiter/limit.ts), else 0
--         and then the arguments of the kind (`columns`)
-- Returns 1 if all rows fit, else 0; the time; for each row: tokens left for the calling instance, tokens leased, the last reset of the
--         counter, or 0; 0 or a warning: 1000 × the percentage that is reached, plus the one before; and what was refunded, as far as it matters to the calling instance. Or 2 and the time, and nothing was done: a row does not name the window of that time.
--
-- Records expire when they equal a new one, or some time later. A lost record is restored from what the first calling instance has spent
-- itself. An existing record is lowered to `most`, unless it is settled: calls of an instance's workers overtake each other, and what one of
-- them gives back or charges would be lost or counted twice.
--
-- A refund is a settlement by whoever asks for it: nobody knows which instance took, and that instance still counts it. So the record adds up what
-- was refunded, `most` of every instance is raised by as much, and instances that learn of it correct their own counts.
--
-- A record has the time when it was created. If that was after a take, the record does not include it, and nothing of that take is given back
-- to it. A settlement is: the instance that created the record may have counted the reservation as spent, and a budget must not lose unused
-- tokens. Earlier versions did not write this time: then it is 0, long ago.
--
-- An override changes the limit of a bucket from a moment on, the same in all instances. When a record meets one for the first time, a raise is added to
-- its level, and the record remembers the moment: nobody adds it again. A call of an instance that does not know that override yet, or that was sent before it
-- came into force, is done under the limit of the record. Corrections under another override than the record's are, too. Other kinds count what is used, and need none of this.
--
-- A reset creates the record again and marks it: the time is below zero. What was taken before is neither given back nor settled, and `most`
-- of an instance that does not know the reset yet is ignored. Earlier versions keep the mark and ignore it.

local MAX_TTL_MS = 315360000000 -- ten years
-- If the clock was set back by less than this, refill waits for it; if by more, the new time counts.
local MAX_WAIT_FOR_CLOCK_MS = 1000
-- A bucket's reset is reported for this long: what arrives later from before it counts again. Instances remember it for as long
-- (src/store/resets.ts), or they would forget their own counts repeatedly. That of a window is reported until the window ends.
local RESET_KEPT_MS = 86400000
-- No two resets of a counter have the same moment, even if the clock was set back.
local TICK_MS = 0.001

local action = ARGV[1]
local known = tonumber(ARGV[2])
local isReturn = action == 'settle' or action == 'refund' or action == 'give_back' or action == 'renew'

local function whole(ms)
  return string.format('%.0f', math.min(math.max(math.ceil(ms), 1), MAX_TTL_MS))
end

local function exact(number)
  -- Lua's own conversion to text has only 14 digits.
  return string.format('%.17g', number)
end

local function is_finite(number)
  return number - number == 0
end

-- Sets when the record of a row was created, or reset, which is below zero.
local function set_begun(row, begun)
  -- If the clock was set back, the record must not be newer than later takes.
  row.begun = is_finite(begun) and math.min(begun, wall) or 0
  row.reset = math.max(0, -row.begun)
end

-- Tokens that are refilled continuously. A string: level, the time of that level, size, rate, when the record was created; what was refunded, if
-- anything was or an override follows; and the moment and the end of the last override that it met.
local bucket = {
  -- Tokens per ms; for how many ms it has had this limit; take: tokens to lease beyond the cost, or -1 for a counter that is
  -- settled; give_back: 1 to keep back what refill has replaced since then. Then 0, or where the limit is that of an override its moment, its end and
  -- the size of the rule's own limit: 'moment:end:size'.
  columns = { 'rate', 'since', 'more', 'override' },
}

-- The moment of a row's override, its end, and the size of the rule's own limit.
local function override_of(row)
  if row.override == 0 then return 0, 0, row.size end
  local moment, ends, own = string.match(row.override, '^([^:]+):([^:]+):([^:]+)$')
  return tonumber(moment), tonumber(ends), tonumber(own)
end

-- A value under our key that is not a record of ours counts as lost: an error would open the circuit of this node for all callers. Any text is a
-- list of numbers, too, but not one with a time that a record can have: none outlives the longest TTL.
local function unpack_bucket(record)
  if not record or #record < 32 then return end
  local level, at, size, rate = struct.unpack('<dddd', record)
  local isOurs = math.abs(now - at) <= MAX_TTL_MS and rate > 0
  if isOurs and is_finite(level) and is_finite(size) and is_finite(rate) then return level, at, size, rate end
end

-- What a record has beyond its first five numbers.
local function unpack_rest(row, record)
  if #record >= 48 then row.refunded = struct.unpack('<d', record, 41) end
  if not is_finite(row.refunded) then row.refunded = 0 end
  row.met, row.metEnd = 0, 0
  if #record >= 64 then row.met, row.metEnd = struct.unpack('<dd', record, 49) end
  if not is_finite(row.met + row.metEnd) then row.met, row.metEnd = 0, 0 end
end

function bucket.read(row)
  local record = redis.call('GET', row.key)
  local level, at, size, rate = unpack_bucket(record)
  local moment, ends, own = override_of(row)
  row.at = now
  row.begun = wall
  row.reset = 0
  row.level = isReturn and row.size or math.min(row.size, row.most)
  row.left = row.level
  row.met, row.metEnd = moment, ends
  if not level then return end
  row.exists = true
  set_begun(row, #record >= 40 and struct.unpack('<d', record, 33) or 0)
  unpack_rest(row, record)
  local isOther = moment ~= row.met
  if (action == 'give_back' and row.more > 0) or (isReturn and isOther) then
    -- A lease goes back under the limit that it was obtained with, which may have changed: the next take applies the new one. So does what is
    -- corrected under another override.
    row.level, row.at, row.size, row.rate = level, at, size, rate
    return
  end
  row.stepped = at > now + MAX_WAIT_FOR_CLOCK_MS
  if row.stepped then at = now end
  local isLate = math.max(known, moment) < row.met and wall < row.metEnd
  if isLate then row.size, row.rate = size, rate end
  local isNew = not isLate and moment > row.met
  -- Moments are wall time.
  local changed = now - (isNew and math.max(0, wall - moment) or row.since)
  if at < changed and (size ~= row.size or rate ~= row.rate) then
    -- Last updated under another limit: until the change, it refilled at the old rate, up to the old size.
    level = math.min(level + (changed - at) * rate, size)
    at = changed
  end
  if isNew then
    level = level + math.max(0, row.size - math.max(size, own))
    row.met, row.metEnd = moment, ends
  end
  if at < now then level = level + (now - at) * row.rate end
  -- Never back in time: the refill between two moments is granted once.
  row.at = math.max(at, now)
  row.level = math.min(level, row.size)
  if isReturn then return end
  if wall - row.reset >= RESET_KEPT_MS then row.reset = 0 end
  local most = row.reset > row.moment and row.size or row.most + row.refunded
  row.left = math.min(row.level, most)
  -- An instance that does not know the override yet counts less than there is.
  if row.more >= 0 and not isLate then row.level = row.left end
end

function bucket.write(row)
  -- Other instances may have another limit, under which the record lives longer. By own counts, what was refunded has yet to be refilled.
  local rest = row.at - now + (row.size - row.level + row.refunded) / row.rate
  if not row.stepped then rest = math.max(rest, redis.call('PTTL', row.key)) end
  if row.begun < 0 then rest = math.max(rest, RESET_KEPT_MS - row.begun - wall) end
  local record = struct.pack('<ddddd', row.level, row.at, row.size, row.rate, row.begun)
  if row.refunded > 0 or row.met > 0 then record = record .. struct.pack('<d', row.refunded) end
  if row.met > 0 then record = record .. struct.pack('<dd', row.met, row.metEnd) end
  redis.call('SET', row.key, record, 'PX', whole(rest))
end

function bucket.take(row)
  -- At most half of what is left: others need some too, and a crash loses no more than that.
  row.leased = math.max(0, math.min(row.more, math.floor((row.left - row.cost) / 2)))
  row.level = row.level - row.cost - row.leased
  row.left = row.left - row.cost - row.leased
  if row.cost + row.leased > 0 then bucket.write(row) end
end

function bucket.give_back(row)
  -- A bucket without a record is full.
  if not row.exists and row.cost > 0 then return end
  local back = row.cost
  -- If the bucket was full otherwise, refill has replaced leased tokens meanwhile. What it can have replaced is kept back, or
  -- a window would count it twice.
  if row.more > 0 then back = math.max(0, back - math.max(0, wall - row.moment) * row.rate) end
  local before = row.level
  row.level = math.min(before + back, row.size)
  -- No own count is behind by more: instances correct theirs whenever they ask.
  if action == 'refund' then row.refunded = math.min(row.refunded + row.level - before, 2 * row.size) end
  bucket.write(row)
end

function bucket.reset(row)
  row.level, row.left, row.at, row.refunded = row.size, row.size, now, 0
  bucket.write(row)
end

-- Tokens for one window of a calendar. A hash: under the window's number what is used, under its negative when the record was created,
-- under the number and a quarter what was refunded, and under the number and a half the highest percentage that was warned of. All are removed together.
local window = {
  -- The numbers and starts of three consecutive windows; then the end of the last one. The middle one is that of the calling instance's
  -- clock, and `most` and `moment` refer to it; for settle, refund and give_back, it is the one that was taken from.
  -- Then the shares to warn of, such as '80:800,95:950' (percentage, from how many tokens), or 0; give_back: the warning to withdraw, or 0.
  columns = { 'previous', 'previousStart', 'present', 'presentStart', 'following', 'followingStart', 'followingEnd', 'warnings' },
}

local function refunded_field(row)
  return string.format('%.0f.25', row.number)
end

local function read_refunded(row)
  local refunded = tonumber(redis.call('HGET', row.key, refunded_field(row)))
  return refunded and is_finite(refunded) and refunded or 0
end

local function warned_field(row)
  return string.format('%.0f.5', row.number)
end

-- Finds the highest share to warn of that is reached, unless it or a higher one was warned of before.
local function warn(row)
  if type(row.warnings) ~= 'string' then return end
  local before = tonumber(redis.call('HGET', row.key, warned_field(row))) or 0
  local reached = 0
  for percent, tokens in string.gmatch(row.warnings, '(%d+):(%d+)') do
    if row.used >= tonumber(tokens) then reached = tonumber(percent) end
  end
  if reached <= before then return end
  redis.call('HSET', row.key, warned_field(row), reached)
  row.warning = reached * 1000 + before
end

-- What is given back was not taken: nobody has heard of the warning.
local function withdraw_warning(row)
  if row.warnings == 0 then return end
  local reached, before = math.floor(row.warnings / 1000), row.warnings % 1000
  if tonumber(redis.call('HGET', row.key, warned_field(row))) == reached then redis.call('HSET', row.key, warned_field(row), before) end
end

-- The current window, its end, and the one before it. Nothing if the time is in none of the three.
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
  set_begun(row, used and tonumber(redis.call('HGET', row.key, -row.number)) or 0)
  row.left = row.size - row.used
  if isReturn then return end
  local isBelieved = row.number == row.present and row.reset <= row.moment
  local most = isBelieved and row.most or row.size
  if used and most < row.left then
    -- The own count of an instance is lower than that of all: something was refunded, or Redis has lost data.
    row.refunded = read_refunded(row)
    most = most + row.refunded
  end
  if not used then row.used = math.max(0, row.size - most) end
  row.left = math.min(row.size - row.used, most)
  if row.over == 0 then row.left = math.max(0, row.left) end
end

function window.write(row)
  if not row.exists then
    -- Remove old windows, but not the previous one: settlements still arrive for it.
    for _, number in ipairs(redis.call('HKEYS', row.key)) do
      if math.abs(tonumber(number) or 0) < row.before then redis.call('HDEL', row.key, number) end
    end
    row.begun = row.begun < 0 and row.begun or wall
  end
  redis.call('HSET', row.key, row.number, exact(math.max(0, row.used)))
  if not row.exists or action == 'reset' then redis.call('HSET', row.key, -row.number, exact(row.begun)) end
  local rest = row.ends - wall
  -- If the clock was set back, another window in the same hash may end later.
  if redis.call('PTTL', row.key) < rest then redis.call('PEXPIRE', row.key, whole(rest)) end
end

function window.take(row)
  if row.cost == 0 then return end
  row.used = row.used + row.cost
  row.left = row.left - row.cost
  window.write(row)
  warn(row)
end

function window.give_back(row)
  -- A window without a record has nothing to give back to, and a debt of a window that has ended is dropped.
  local isOver = wall < row.presentStart or wall >= row.ends
  if not row.exists and (row.cost > 0 or isOver) then return end
  if action == 'refund' then
    redis.call('HSET', row.key, refunded_field(row), exact(read_refunded(row) + math.min(row.cost, row.used)))
  end
  row.used = row.used - row.cost
  window.write(row)
  if action == 'give_back' then withdraw_warning(row) elseif row.cost < 0 then warn(row) end
end

function window.reset(row)
  row.used, row.left = 0, row.size
  window.write(row)
  redis.call('HDEL', row.key, warned_field(row), refunded_field(row))
end

-- Requests in flight. A hash: under the number of a slice of time the holds that were taken or last renewed in it, and under `reset` when the
-- record was reset. A slice counts for as long as eight slices: the holds of an instance that died end with theirs. A lost record is not
-- restored: its holds are in it again when they are renewed.
local in_flight = {
  -- The length of a slice in ms; settle, give_back, renew: when it was taken or last renewed, or 0 if there is nothing to give back.
  columns = { 'slice', 'taken' },
}
local SLICES = 8

local function slice_of(row, ms)
  return math.floor(ms / row.slice)
end

-- The holds of a slice; nothing where there are none.
local function holds_in(row, number)
  local holds = tonumber(redis.call('HGET', row.key, number))
  if holds and is_finite(holds) and holds > 0 then return holds end
end

function in_flight.read(row)
  row.number = slice_of(row, wall)
  set_begun(row, tonumber(redis.call('HGET', row.key, 'reset')) or 0)
  if wall - row.reset >= RESET_KEPT_MS then row.reset = 0 end
  row.left = row.size
  for age = 0, SLICES - 1 do row.left = row.left - (holds_in(row, row.number - age) or 0) end
  if not isReturn and row.reset <= row.moment then row.left = math.min(row.left, row.most) end
end

-- Adds holds to the current slice.
local function add_holds(row, holds)
  local present = holds_in(row, row.number)
  if not present then
    -- Remove the slices that no longer count, and those of a clock that was set back since.
    for _, field in ipairs(redis.call('HKEYS', row.key)) do
      local number = tonumber(field)
      if number and (number <= row.number - SLICES or number > row.number) then redis.call('HDEL', row.key, field) end
    end
  end
  redis.call('HSET', row.key, row.number, exact((present or 0) + holds))
  local rest = (row.number + SLICES) * row.slice - wall
  if redis.call('PTTL', row.key) < rest then redis.call('PEXPIRE', row.key, whole(rest)) end
end

function in_flight.take(row)
  if row.cost == 0 then return end
  row.left = row.left - row.cost
  add_holds(row, row.cost)
end

function in_flight.give_back(row)
  local number = slice_of(row, row.taken)
  local holds = holds_in(row, number)
  -- Holds of a slice that has ended, or was lost, are gone already.
  if not holds then return end
  if holds > row.cost then
    redis.call('HSET', row.key, number, exact(holds - row.cost))
  else
    redis.call('HDEL', row.key, number)
  end
end

function in_flight.renew(row)
  in_flight.give_back(row)
  add_holds(row, row.cost)
end

function in_flight.reset(row)
  for _, field in ipairs(redis.call('HKEYS', row.key)) do redis.call('HDEL', row.key, field) end
  redis.call('HSET', row.key, 'reset', exact(row.begun))
  redis.call('PEXPIRE', row.key, whole(RESET_KEPT_MS))
  row.left = row.size
end

-- The functions of a kind. Each works on one row, which has the arguments of its columns by name.
--   columns    its arguments besides those of all rows, in the order of script-arguments.ts
--   read       reads the record: `exists`, `left` (for the calling instance, so at most `most`, unless the record was reset since `moment`), `begun` and `reset`
--              (set_begun), and what `take` and the others write; or sets `misses`, and nothing is done in any row
--   take       takes `cost`, and leases up to `more` where it can: writes the record, `left` and `leased`
--   give_back  gives `cost` back, or charges it where it is below zero; never called for a record that does not include the take
--   reset      replaces the record by a new one, created at `begun`, which is below zero; kept for RESET_KEPT_MS, or until its window ends
--   renew      for kinds with holds: moves `cost` holds to the current slice; never called for a record that was reset since they were taken
--   write      writes a record after the clock was set back (`stepped`), for kinds that set it
local KINDS = { [1] = bucket, [2] = window, [3] = in_flight }
local COLUMNS = { 'cost', 'size', 'most', 'moment', 'over' }

local function covers(row)
  if row.over == 1 then return row.left > 0 end
  return row.cost == 0 or row.left >= row.cost
end

-- Whether a record does not include a take: it was reset since, or created since by an instance that did not know of it.
local function is_unrelated(row)
  if row.reset > 0 then return row.moment <= row.reset end
  return action == 'give_back' and row.exists and row.begun > row.moment
end

local at = 2
local function read_columns(row, columns)
  for _, name in ipairs(columns) do
    at = at + 1
    row[name] = tonumber(ARGV[at]) or ARGV[at]
  end
end

local rows = {}
local fits = true

for i, key in ipairs(KEYS) do
  local row = { key = key, leased = 0, warning = 0, refunded = 0 }
  read_columns(row, { 'kind' })
  local kind = KINDS[row.kind]
  read_columns(row, COLUMNS)
  read_columns(row, kind.columns)
  kind.read(row)
  if row.misses then return '2 ' .. exact(wall) end
  fits = action ~= 'take' and action ~= 'check' or (covers(row) and fits)
  rows[i] = row
end

local reply = { fits and 1 or 0, exact(wall) }
for _, row in ipairs(rows) do
  local kind = KINDS[row.kind]
  if isReturn then
    local change = kind[action == 'renew' and 'renew' or 'give_back']
    if change and row.cost ~= 0 and not is_unrelated(row) then change(row) end
  elseif action == 'reset' then
    -- Moments of resets always rise, or an instance that knows the last one would miss this one.
    row.reset = math.max(wall, row.reset + TICK_MS, row.moment + TICK_MS)
    row.begun = -row.reset
    kind.reset(row)
  elseif action == 'take' and fits then
    kind.take(row)
  elseif row.stepped and action == 'take' then
    -- Otherwise an empty bucket would not refill until the clock is back where it was.
    kind.write(row)
  end
  reply[#reply + 1] = exact(row.left)
  reply[#reply + 1] = exact(row.leased)
  reply[#reply + 1] = exact(row.reset)
  reply[#reply + 1] = row.warning
  reply[#reply + 1] = row.refunded > 0 and exact(row.refunded) or 0
end
return table.concat(reply, ' ')
