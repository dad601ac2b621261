-- Changes counters of all kinds: those of one call together, or none of them. It is appended to clock.lua, which sets `wall` and `now`.
--
-- KEYS    one counter per row
-- ARGV    take, check, settle, refund, give_back, renew or reset
--         known  take, check, reset: moment of the last change of overrides that the calling instance knows and that is in force there, or 0
--         then for each row:
--           kind    kind of the limit, as in src/limiter/limit.ts
--           cost    take, check: tokens to take; settle, refund, give_back: tokens to give back, or to charge if below zero; renew: holds to move
--           size    the most that the limit can grant at one moment
--           most    take, check: the most that can be left, given what the calling instance alone has spent
--           moment  take, check, reset: the last reset that the calling instance knows; settle, refund, give_back, renew: when it was taken
--           over    1 if a request passes while anything is left, whatever it takes (canOverdraw in src/limiter/limit.ts); 2 if the row is charged whatever is
--                   left (a bucket of a reservation that grows); else 0
--         and then the arguments of the kind (`columns`)
-- Returns 1 if all rows fit, else 0; then the time; then for each row:
--           tokens left for the calling instance
--           tokens leased
--           the last reset of the counter, or 0
--           the warning that was reached, or 0: 1000 times its percentage, plus the percentage that was warned about before
--           the amount refunded, if the calling instance has to correct its own count by it, else 0
--         If a row does not name the window of the current time, nothing is changed, and the reply is 2 and the time.
--
-- A record expires at the earliest when it would equal a new one. If a record is lost, the first instance that calls restores it from what that
-- instance itself has spent. An existing record is lowered to `most`, except for counters that are settled: calls of an instance's workers overtake
-- each other, so that amounts which one of them gives back or charges would be lost or counted twice.
--
-- A refund is a settlement by an instance that may not be the one that took. The one that took still counts the amount as spent. The record
-- therefore adds up what was refunded, `most` of every instance is raised by that sum, and instances correct their own counts when they learn of it.
--
-- A record stores when it was created. If that was after a take, the record does not include that take, and nothing is given back to it.
-- Settlements are applied all the same: the instance that created the record may have counted the reservation as spent, and a budget must not lose
-- unused tokens. Earlier versions did not write this time; it then counts as 0, long ago.
--
-- An override changes the limit of a bucket from one moment on, the same in all instances. When a record meets an override for the first time, a
-- raise is added to its level once, and the record stores the moment of that override. Calls by an instance that does not know that override yet,
-- calls sent before it came into force, and corrections under another override are applied under the limit in the record. Other kinds count what
-- was used, and need none of this.
--
-- A reset creates the record anew and stores its creation time as a negative number. What was taken before a reset is neither given back nor
-- settled, and `most` of an instance that does not know the reset yet is ignored. Earlier versions keep the negative time and ignore it.

local MAX_TTL_MS = 315360000000 -- ten years
-- If the clock was set back by less than this, refill waits for it; if by more, the new time counts.
local MAX_WAIT_FOR_CLOCK_MS = 1000
-- The reset of a bucket is reported for this long; amounts taken before it that arrive later are applied again. Instances remember a reset as long
-- (src/store/redis/fleet-resets.ts), because otherwise they would drop their own counts again and again. The reset of a window is reported
-- until that window ends.
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

-- Sets when the record of a row was created; the time is negative if it was created by a reset.
local function set_begun(row, begun)
  -- If the clock was set back, the record must not be newer than later takes.
  row.begun = is_finite(begun) and math.min(begun, wall) or 0
  row.reset = math.max(0, -row.begun)
end

-- Tokens that are refilled continuously. The record is a string of doubles: level, time of that level, size, rate, creation time; then the refunded
-- amount, if there is one or an override follows; then moment and end of the last override that the record met.
local bucket = {
  -- rate      tokens per ms
  -- since     how long the counter has had this limit, in ms
  -- more      take: tokens to lease beyond the cost, or -1 for a counter that is settled; give_back: 1 to keep back what refill has replaced since
  -- override  0, or if the limit comes from an override: its moment, its end, and the size of the rule's own limit ('moment:end:size')
  columns = { 'rate', 'since', 'more', 'override' },
}

-- The moment of a row's override, its end, and the size of the rule's own limit.
local function override_of(row)
  if row.override == 0 then return 0, 0, row.size end
  local moment, ends, own = string.match(row.override, '^([^:]+):([^:]+):([^:]+)$')
  return tonumber(moment), tonumber(ends), tonumber(own)
end

-- A value under our key that edge did not write counts as a lost record, because an error would open the circuit of this node for all callers. Any
-- text can be unpacked as numbers, but its time is not one that a record can have: no record outlives the longest TTL.
local function unpack_bucket(record)
  if not record or #record < 32 then return end
  local level, at, size, rate = struct.unpack('<dddd', record)
  local isOurs = math.abs(now - at) <= MAX_TTL_MS and rate > 0
  if isOurs and is_finite(level) and is_finite(size) and is_finite(rate) then return level, at, size, rate end
end

-- Reads the optional numbers of a record, after the first five.
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
    -- A lease is given back under the limit in the record, which may have changed since: the next take applies the new one. The same goes for
    -- corrections under another override.
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
    -- The record was last updated under another limit: until the change, it refilled at the old rate, up to the old size.
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
  -- An instance that does not know the override yet has a lower count: it must not lower the record.
  if row.more >= 0 and not isLate then row.level = row.left end
end

function bucket.write(row)
  -- Other instances may have another limit, under which the record lives longer. In the instances' own counts, refunded tokens are still missing.
  local rest = row.at - now + (row.size - row.level + row.refunded) / row.rate
  if not row.stepped then rest = math.max(rest, redis.call('PTTL', row.key)) end
  if row.begun < 0 then rest = math.max(rest, RESET_KEPT_MS - row.begun - wall) end
  local record = struct.pack('<ddddd', row.level, row.at, row.size, row.rate, row.begun)
  if row.refunded > 0 or row.met > 0 then record = record .. struct.pack('<d', row.refunded) end
  if row.met > 0 then record = record .. struct.pack('<dd', row.met, row.metEnd) end
  redis.call('SET', row.key, record, 'PX', whole(rest))
end

function bucket.take(row)
  -- Lease at most half of what is left: other instances need some too, and a crash loses no more than that.
  row.leased = math.max(0, math.min(row.more, math.floor((row.left - row.cost) / 2)))
  row.level = row.level - row.cost - row.leased
  row.left = row.left - row.cost - row.leased
  if row.cost + row.leased > 0 then bucket.write(row) end
end

function bucket.give_back(row)
  -- A bucket without a record is full.
  if not row.exists and row.cost > 0 then return end
  local back = row.cost
  -- If the bucket was otherwise full, refill may have replaced the leased tokens meanwhile. Keep back as much as it can have replaced, because
  -- otherwise these tokens could be spent twice.
  if row.more > 0 then back = math.max(0, back - math.max(0, wall - row.moment) * row.rate) end
  local before = row.level
  row.level = math.min(before + back, row.size)
  -- No instance's own count is behind by more than this, because each corrects its count whenever it calls.
  if action == 'refund' then row.refunded = math.min(row.refunded + row.level - before, 2 * row.size) end
  bucket.write(row)
end

function bucket.reset(row)
  row.level, row.left, row.at, row.refunded = row.size, row.size, now, 0
  bucket.write(row)
end

-- Tokens for each window of a calendar. The record is a hash with up to four fields for each window: its number (tokens used), the negative number
-- (creation time), the number plus 0.25 (tokens refunded) and plus 0.5 (highest percentage that was warned about). They are removed together.
local window = {
  -- Numbers and starts of three consecutive windows, and the end of the last one. The middle one is current by the calling instance's clock, and
  -- `most` and `moment` refer to it; for settle, refund and give_back, it is the window that was taken from.
  -- warnings: 0, or the shares to warn about as '80:800,95:950' (percentage:tokens used); give_back: the warning to withdraw, or 0.
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

-- Finds the highest share that has been reached, unless there was a warning about it or a higher one before.
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

-- Withdraws the warning of a take that is given back, because it was never reported.
local function withdraw_warning(row)
  if row.warnings == 0 then return end
  local reached, before = math.floor(row.warnings / 1000), row.warnings % 1000
  if tonumber(redis.call('HGET', row.key, warned_field(row))) == reached then redis.call('HSET', row.key, warned_field(row), before) end
end

-- Returns the current window, its end, and the window before it; nothing if the time is in none of the three.
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
    -- The instance alone has spent more than the record says: something was refunded, or Redis has lost data.
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

-- Requests in flight. The record is a hash: for each slice of time, the number of holds taken or last renewed in it, and under `reset`, when the
-- record was reset. A slice counts for the length of eight slices, after which the holds of an instance that died no longer count. A lost record
-- is not restored: its holds are added again when they are renewed.
local in_flight = {
  -- slice  length of a slice in ms
  -- taken  settle, give_back, renew: when the hold was taken or last renewed, or 0 if there is nothing to give back
  columns = { 'slice', 'taken' },
}
local SLICES = 8

local function slice_of(row, ms)
  return math.floor(ms / row.slice)
end

-- Returns the number of holds in a slice; nothing if there are none.
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

-- The kinds of counters. Each is a table of functions on one row, which has the arguments of its columns by name.
--   columns    names of its own arguments, in the order of src/store/redis/script-format.ts
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
  if row.over == 2 then return true end
  if row.over == 1 then return row.left > 0 end
  return row.cost == 0 or row.left >= row.cost
end

-- Whether a record does not include a take, because it was reset or created after it.
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
    -- The moments of resets always increase; otherwise an instance that knows the last one would miss this one.
    row.reset = math.max(wall, row.reset + TICK_MS, row.moment + TICK_MS)
    row.begun = -row.reset
    kind.reset(row)
  elseif action == 'take' and fits then
    kind.take(row)
  elseif row.stepped and action == 'take' then
    -- Without this write, an empty bucket would not refill until the clock is back where it was.
    kind.write(row)
  end
  reply[#reply + 1] = exact(row.left)
  reply[#reply + 1] = exact(row.leased)
  reply[#reply + 1] = exact(row.reset)
  reply[#reply + 1] = row.warning
  reply[#reply + 1] = row.refunded > 0 and exact(row.refunded) or 0
end
return table.concat(reply, ' ')
