-- Tokens that are refilled continuously. The record is a string of doubles: level, time of that level, size, rate, creation time; then the refunded
-- amount, if there is one or an override follows; then moment and end of the last override that the record met.
local bucket = {}
KINDS[1] = bucket

-- A value under our key that edge did not write counts as a lost record, because an error would open the circuit of this node for all callers. Any
-- text can be unpacked as numbers, but its time is not one that a record can have: no record outlives the longest TTL.
local function unpack_bucket(record)
  if not record or #record < 32 then return end
  local level, at, size, rate, begun
  if #record >= 40 then
    level, at, size, rate, begun = unpack_numbers('<ddddd', record)
  else
    level, at, size, rate = unpack_numbers('<dddd', record)
  end
  local isOurs = abs(now - at) <= MAX_TTL_MS and rate > 0
  if isOurs and is_finite(level) and is_finite(size) and is_finite(rate) then return level, at, size, rate, begun or 0 end
end

-- Reads the optional numbers of a record, after the first five.
local function unpack_rest(row, record)
  if #record >= 48 then row.refunded = unpack_numbers('<d', record, 41) end
  if not is_finite(row.refunded) then row.refunded = 0 end
  row.met, row.metEnd = 0, 0
  if #record >= 64 then row.met, row.metEnd = unpack_numbers('<dd', record, 49) end
  if not is_finite(row.met + row.metEnd) then row.met, row.metEnd = 0, 0 end
end

-- Numbers of its own:
--   rate   tokens per ms
--   since  how long the counter has had this limit, in ms
--   more   take: tokens to lease beyond the cost, or -1 for a counter that is settled; give_back: 1 to keep back what refill has replaced since
--   then the override that the limit comes from: its moment, its end, and the size of the rule's own limit; or 0, 0 and the size
function bucket.read(key, at)
  local cost, size, most, moment, over, rate, since, more, override, overrideEnd, own, following = unpack_numbers('<ddddddddddd', numbers, at)
  local full = isReturn and size or min(size, most)
  local row = {
    kind = bucket, key = key, cost = cost, size = size, moment = moment, over = over, rate = rate, more = more,
    at = now, begun = wall, reset = 0, level = full, left = full, met = override, metEnd = overrideEnd,
    exists = false, stepped = false, leased = 0, warning = 0, refunded = 0,
  }
  local record = call('GET', key)
  local level, levelAt, oldSize, oldRate, begun = unpack_bucket(record)
  if not level then return row, following end
  row.exists = true
  set_begun(row, begun)
  unpack_rest(row, record)
  if (action == 'give_back' and more > 0) or (isReturn and override ~= row.met) then
    -- A lease is given back under the limit in the record, which may have changed since: the next take applies the new one. The same goes for
    -- corrections under another override.
    row.level, row.at, row.size, row.rate = level, levelAt, oldSize, oldRate
    return row, following
  end
  row.stepped = levelAt > now + MAX_WAIT_FOR_CLOCK_MS
  if row.stepped then levelAt = now end
  local isLate = max(known, override) < row.met and wall < row.metEnd
  if isLate then size, rate = oldSize, oldRate end
  local isNew = not isLate and override > row.met
  if size ~= oldSize or rate ~= oldRate then
    -- Moments are wall time.
    local changed = now - (isNew and max(0, wall - override) or since)
    if levelAt < changed then
      -- The record was last updated under another limit: until the change, it refilled at the old rate, up to the old size.
      level = min(level + (changed - levelAt) * oldRate, oldSize)
      levelAt = changed
    end
  end
  if isNew then
    level = level + max(0, size - max(oldSize, own))
    row.met, row.metEnd = override, overrideEnd
  end
  if levelAt < now then level = level + (now - levelAt) * rate end
  -- Never back in time: the refill between two moments is granted once.
  row.at = max(levelAt, now)
  row.size, row.rate = size, rate
  row.level = min(level, size)
  if isReturn then return row, following end
  if wall - row.reset >= RESET_KEPT_MS then row.reset = 0 end
  row.left = min(row.level, row.reset > moment and size or most + row.refunded)
  -- An instance that does not know the override yet has a lower count: it must not lower the record.
  if more >= 0 and not isLate then row.level = row.left end
  return row, following
end

function bucket.write(row)
  -- Other instances may have another limit, under which the record lives longer. In the instances' own counts, refunded tokens are still missing.
  local rest = row.at - now + (row.size - row.level + row.refunded) / row.rate
  if row.exists and not row.stepped then rest = max(rest, call('PTTL', row.key)) end
  if row.begun < 0 then rest = max(rest, RESET_KEPT_MS - row.begun - wall) end
  local record = pack('<ddddd', row.level, row.at, row.size, row.rate, row.begun)
  if row.refunded > 0 or row.met > 0 then record = record .. pack('<d', row.refunded) end
  if row.met > 0 then record = record .. pack('<dd', row.met, row.metEnd) end
  call('SET', row.key, record, 'PX', whole(rest))
end

function bucket.take(row)
  -- Lease at most half of what is left: other instances need some too, and a crash loses no more than that.
  local leased = max(0, min(row.more, floor((row.left - row.cost) / 2)))
  local taken = row.cost + leased
  row.leased = leased
  row.level = row.level - taken
  row.left = row.left - taken
  if taken > 0 then bucket.write(row) end
end

function bucket.give_back(row)
  -- A bucket without a record is full.
  if not row.exists and row.cost > 0 then return end
  local back = row.cost
  -- If the bucket was otherwise full, refill may have replaced the leased tokens meanwhile. Keep back as much as it can have replaced, because
  -- otherwise these tokens could be spent twice.
  if row.more > 0 then back = max(0, back - max(0, wall - row.moment) * row.rate) end
  local before = row.level
  row.level = min(before + back, row.size)
  -- No instance's own count is behind by more than this, because each corrects its count whenever it calls.
  if action == 'refund' then row.refunded = min(row.refunded + row.level - before, 2 * row.size) end
  bucket.write(row)
end

function bucket.reset(row)
  row.level, row.left, row.at, row.refunded = row.size, row.size, now, 0
  bucket.write(row)
end
