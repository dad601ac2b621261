-- Requests in flight. The record is a hash: for each slice of time, the number of holds taken or last renewed in it, and under `reset`, when the
-- record was reset. A slice counts for the length of eight slices, after which the holds of an instance that died no longer count. A lost record
-- is not restored: its holds are added again when they are renewed.
local in_flight = {}
KINDS[3] = in_flight
local SLICES = 8

local function slice_of(row, ms)
  return floor(ms / row.slice)
end

-- Returns the number of holds in a slice; nothing if there are none.
local function holds_in(row, number)
  local holds = tonumber(call('HGET', row.key, number))
  if holds and is_finite(holds) and holds > 0 then return holds end
end

-- Numbers of its own:
--   slice  length of a slice in ms
--   taken  settle, give_back, renew: when the hold was taken or last renewed, or 0 if there is nothing to give back
function in_flight.read(key, at)
  local cost, size, most, moment, over, slice, taken, following = unpack_numbers('<ddddddd', numbers, at)
  local row = { kind = in_flight, key = key, cost = cost, size = size, moment = moment, over = over, slice = slice, taken = taken, leased = 0, warning = 0, refunded = 0 }
  row.number = slice_of(row, wall)
  set_begun(row, tonumber(call('HGET', key, 'reset')) or 0)
  if wall - row.reset >= RESET_KEPT_MS then row.reset = 0 end
  row.left = size
  for age = 0, SLICES - 1 do row.left = row.left - (holds_in(row, row.number - age) or 0) end
  if not isReturn and row.reset <= moment then row.left = min(row.left, most) end
  return row, following
end

-- Adds holds to the current slice.
local function add_holds(row, holds)
  local present = holds_in(row, row.number)
  if not present then
    -- Remove the slices that no longer count, and those of a clock that was set back since.
    for _, field in ipairs(call('HKEYS', row.key)) do
      local number = tonumber(field)
      if number and (number <= row.number - SLICES or number > row.number) then call('HDEL', row.key, field) end
    end
  end
  call('HSET', row.key, row.number, (present or 0) + holds)
  local rest = (row.number + SLICES) * row.slice - wall
  if call('PTTL', row.key) < rest then call('PEXPIRE', row.key, whole(rest)) end
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
    call('HSET', row.key, number, holds - row.cost)
  else
    call('HDEL', row.key, number)
  end
end

function in_flight.renew(row)
  in_flight.give_back(row)
  add_holds(row, row.cost)
end

function in_flight.reset(row)
  for _, field in ipairs(call('HKEYS', row.key)) do call('HDEL', row.key, field) end
  call('HSET', row.key, 'reset', row.begun)
  call('PEXPIRE', row.key, whole(RESET_KEPT_MS))
  row.left = row.size
end
