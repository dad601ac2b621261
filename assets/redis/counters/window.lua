-- Tokens for each window of a calendar. The record is a hash with up to four fields for each window: its number (tokens used), the negative number
-- (creation time), the number plus 0.25 (tokens refunded) and plus 0.5 (highest percentage that was warned about). They are removed together.
local window = {}
KINDS[2] = window

local function refunded_field(row)
  return string.format('%.0f.25', row.number)
end

local function read_refunded(row)
  local refunded = tonumber(call('HGET', row.key, refunded_field(row)))
  return refunded and is_finite(refunded) and refunded or 0
end

local function warned_field(row)
  return string.format('%.0f.5', row.number)
end

-- Finds the highest share that has been reached, unless there was a warning about it or a higher one before.
local function warn(row)
  if row.shares == 0 then return end
  local before = tonumber(call('HGET', row.key, warned_field(row))) or 0
  local reached = 0
  for i = 0, row.shares - 1 do
    local percent, tokens = unpack_numbers('<dd', numbers, row.sharesAt + i * 16)
    if row.used >= tokens then reached = percent end
  end
  if reached <= before then return end
  call('HSET', row.key, warned_field(row), reached)
  row.warning = reached * 1000 + before
end

-- Withdraws the warning of a take that is given back, because it was never reported.
local function withdraw_warning(row)
  if row.withdrawn == 0 then return end
  local reached, before = floor(row.withdrawn / 1000), row.withdrawn % 1000
  if tonumber(call('HGET', row.key, warned_field(row))) == reached then call('HSET', row.key, warned_field(row), before) end
end

-- Returns the current window, its end, and the window before it; nothing if the time is in none of the three.
local function choose_window(row)
  if isReturn or (wall >= row.presentStart and wall < row.followingStart) then return row.present, row.followingStart, row.previous end
  if wall < row.previousStart or wall >= row.followingEnd then return end
  if wall < row.presentStart then return row.previous, row.presentStart, row.previous - 1 end
  return row.following, row.followingEnd, row.present
end

-- Numbers of its own:
--   those and the starts of three consecutive windows, and the end of the last one. The middle one is current by the calling instance's clock, and
--   `most` and `moment` refer to it; for settle, refund and give_back, it is the window that was taken from.
--   withdrawn  give_back: the warning to withdraw, or 0
--   shares     how many shares there are to warn about; then for each its percentage, and the tokens used that reach it
function window.read(key, at)
  local cost, size, most, moment, over, following = unpack_numbers('<ddddd', numbers, at)
  local row = { kind = window, key = key, cost = cost, size = size, most = most, moment = moment, over = over, leased = 0, warning = 0, refunded = 0 }
  row.previous, row.previousStart, row.present, row.presentStart, row.following, row.followingStart, row.followingEnd, row.withdrawn, row.shares, following =
    unpack_numbers('<ddddddddd', numbers, following)
  row.sharesAt = following
  following = following + row.shares * 16
  row.number, row.ends, row.before = choose_window(row)
  if not row.number then
    row.misses = true
    return row, following
  end
  local used = tonumber(call('HGET', row.key, row.number))
  if used and not is_finite(used) then used = nil end
  row.exists = used and true
  row.used = used or 0
  set_begun(row, used and tonumber(call('HGET', row.key, -row.number)) or 0)
  row.left = row.size - row.used
  if isReturn then return row, following end
  local isBelieved = row.number == row.present and row.reset <= row.moment
  local most = isBelieved and row.most or row.size
  if used and most < row.left then
    -- The instance alone has spent more than the record says: something was refunded, or Redis has lost data.
    row.refunded = read_refunded(row)
    most = most + row.refunded
  end
  if not used then row.used = max(0, row.size - most) end
  row.left = min(row.size - row.used, most)
  return row, following
end

function window.write(row)
  if not row.exists then
    -- Remove old windows, but not the previous one: settlements still arrive for it.
    for _, number in ipairs(call('HKEYS', row.key)) do
      if abs(tonumber(number) or 0) < row.before then call('HDEL', row.key, number) end
    end
    row.begun = row.begun < 0 and row.begun or wall
  end
  call('HSET', row.key, row.number, max(0, row.used))
  if not row.exists or action == 'reset' then call('HSET', row.key, -row.number, row.begun) end
  local rest = row.ends - wall
  -- If the clock was set back, another window in the same hash may end later.
  if call('PTTL', row.key) < rest then call('PEXPIRE', row.key, whole(rest)) end
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
    call('HSET', row.key, refunded_field(row), read_refunded(row) + min(row.cost, row.used))
  end
  row.used = row.used - row.cost
  window.write(row)
  if action == 'give_back' then withdraw_warning(row) elseif row.cost < 0 then warn(row) end
end

function window.reset(row)
  row.used, row.left = 0, row.size
  window.write(row)
  call('HDEL', row.key, warned_field(row), refunded_field(row))
end
