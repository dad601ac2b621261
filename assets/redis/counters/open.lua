-- What requests in flight would give back, kept beside each counter for the case that their instance dies: open-records.ts describes the protocol. It is the
-- end of a script, in place of decide.lua, and runs as `settle`.
--
-- KEYS    for each record: its counter, and the hash of the records that one thread of an instance has of that counter, in the same slot
-- ARGV    settle, the numbers as in counters.lua, then what to do:
--         close    for each record: its field; what is known to be in it, or 0; 1 if another call for it may still come, 2 if this settlement may have been done
--                  before, else 0. Settles the rows, as decide.lua does, and removes the records. What was returned for them is charged again. If it may have
--                  been done before, it is done if the record is still there. Replies as decide.lua does
--         report   for each record: its field, 1 if it is new, and what it says. Replies 1 for each that is kept from now on, and 0 for those that were lost
--         return   the most records to return. Gives back what they say, and replies 1 if there are more, else 0, and how many were returned; then how much was
--                  given back and how much stays charged, of tokens and of money
--
-- A record is a string of doubles: 1 for money, else 0; what stays charged; then rows as settlements have them, which name their window and reset. A record
-- that was settled while another call for it could still come is empty. One that was returned is in a field of another name, and says what there was room for.

local KEPT_MS = 86400000
local HEADER_BYTES = 16
local sent = numbers

-- Gives a row back, and returns how much of that there was room for.
local function give(row)
  if row.cost == 0 or (row.reset > 0 and row.moment <= row.reset) then return 0 end
  local before = row.used or row.level
  row.kind.give_back(row)
  return row.used and before - max(0, row.used) or row.level - before
end

-- Calls `change` with each row of a record, and returns the record with what that returns as costs.
local function each_row(key, record, change)
  local at = HEADER_BYTES + 1
  local changed = record:sub(1, HEADER_BYTES)
  while at < #record do
    local from = at
    -- The kinds read from `numbers`.
    numbers = record
    local kind, own = unpack_numbers('<d', record, at)
    local row
    row, at = KINDS[kind].read(key, own)
    changed = changed .. record:sub(from, own - 1) .. pack('<d', change(row)) .. record:sub(own + 8, at - 1)
  end
  numbers = sent
  return changed
end

local function keep(hash, field, record)
  call('HSET', hash, field, record)
  call('PEXPIRE', hash, KEPT_MS)
end

local function returned_field(field)
  return 'r' .. field
end

-- Charges again what was returned for a record. Returns whether that was the case.
local function take_back(key, hash, field)
  local record = call('HGET', hash, returned_field(field))
  if not record then return false end
  each_row(key, record, function(row)
    row.cost = -row.cost
    return give(row)
  end)
  call('HDEL', hash, returned_field(field))
  return true
end

-- Ends a record. Returns what it said, or something else if that was returned; nothing if there was no record, and '' if it was ended before.
local function close(key, hash, field, mayCome)
  local record = take_back(key, hash, field) or call('HGET', hash, field)
  if mayCome then keep(hash, field, '') elseif record ~= '' then call('HDEL', hash, field) end
  return record
end

local function report(key, hash, field, isNew, record)
  local kept = call('HGET', hash, field)
  if kept == '' or not (take_back(key, hash, field) or kept or isNew) then return 0 end
  keep(hash, field, record)
  return 1
end

local what = ARGV[3]

if what == 'return' then
  local key, hash = KEYS[1], KEYS[2]
  local sums = { 0, 0, 0, 0 }
  local counted, left = 0, 0
  for _, field in ipairs(call('HKEYS', hash)) do
    local record = tonumber(field) and call('HGET', hash, field) or ''
    if record ~= '' and counted == tonumber(ARGV[4]) then
      left = 1
      break
    end
    if record ~= '' then
      counted = counted + 1
      local isMoney, kept = unpack_numbers('<dd', record)
      local at = isMoney == 1 and 3 or 1
      keep(hash, returned_field(field), each_row(key, record, function(row)
        local given = give(row)
        sums[at] = sums[at] + given
        return given
      end))
      sums[at + 1] = sums[at + 1] + kept
      call('HDEL', hash, field)
    end
  end
  return pack('<dddddd', left, counted, sums[1], sums[2], sums[3], sums[4])
end

local reply = what == 'close' and pack('<dd', 1, wall) or ''
for i = 1, #KEYS / 2 do
  local key, hash = KEYS[i * 2 - 1], KEYS[i * 2]
  local field, first, second = ARGV[i * 3 + 1], ARGV[i * 3 + 2], ARGV[i * 3 + 3]
  if what == 'report' then
    reply = reply .. pack('<d', report(key, hash, field, first == '1', second))
  else
    local record = close(key, hash, field, second ~= '0')
    local kind, at = unpack_numbers('<d', numbers, at_row)
    local row
    row, at_row = KINDS[kind].read(key, at)
    if record == '' or (second == '2' and not record) then
      row.cost = 0
    elseif not record and row.exists and row.reset == 0 and row.begun <= row.moment then
      -- The record was lost, and its counter was not: it may have been returned before.
      row.cost = row.cost - tonumber(first)
    end
    give(row)
    reply = reply .. pack('<ddddd', row.left, 0, row.reset, row.warning, row.refunded)
  end
end
return reply
