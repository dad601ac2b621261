-- Reads all rows, decides, changes the records, and replies. It is the end of the script.

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

local rows = {}
local isQuestion = action == 'take' or action == 'check'
local fits = true

for i, key in ipairs(KEYS) do
  local kind, at = unpack_numbers('<d', numbers, at_row)
  rows[i], at_row = KINDS[kind].read(key, at)
  if rows[i].misses then return pack('<dd', 2, wall) end
  fits = not isQuestion or (covers(rows[i]) and fits)
end

local reply = pack('<dd', fits and 1 or 0, wall)
for _, row in ipairs(rows) do
  local kind = row.kind
  if isReturn then
    local change = kind[action == 'renew' and 'renew' or 'give_back']
    if change and row.cost ~= 0 and not is_unrelated(row) then change(row) end
  elseif action == 'reset' then
    -- The moments of resets always increase; otherwise an instance that knows the last one would miss this one.
    row.reset = max(wall, row.reset + TICK_MS, row.moment + TICK_MS)
    row.begun = -row.reset
    kind.reset(row)
  elseif action == 'take' and fits then
    kind.take(row)
  elseif row.stepped and action == 'take' then
    -- Without this write, an empty bucket would not refill until the clock is back where it was.
    kind.write(row)
  end
  reply = reply .. pack('<ddddd', row.left, row.leased, row.reset, row.warning, row.refunded)
end
return reply
