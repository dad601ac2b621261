-- Changes counters of all kinds: those of one call together, or none of them. Redis runs a script from its first line with every call, so it consists of
-- what the call needs: clock.lua, which sets `wall` and `now`; this file; the kinds of its rows, bucket.lua and where there are others window.lua and
-- in-flight.lua; and decide.lua.
--
-- KEYS    one counter per row
-- ARGV    take, check, settle, refund, give_back, renew or reset
--         then numbers, packed as doubles, which is less work than text for both sides:
--         known  take, check, reset: moment of the last change of overrides that the calling instance knows and that is in force there, or 0
--         then for each row:
--           kind    kind of the limit, as in src/limiter/limit.ts
--           cost    take, check: tokens to take; settle, refund, give_back: tokens to give back, or to charge if below zero; renew: holds to move
--           size    the most that the limit can grant at one moment
--           most    take, check: the most that can be left, given what the calling instance alone has spent
--           moment  take, check, reset: the last reset that the calling instance knows; settle, refund, give_back, renew: when it was taken
--           over    1 if a request passes while anything is left, whatever it takes (canOverdraw in src/limiter/limit.ts); 2 if the row is charged whatever is
--                   left (a bucket of a reservation that grows); else 0
--         and then the numbers of the kind, which `read` of the kind describes
-- Returns doubles, too: 1 if all rows fit, else 0; then the time; then for each row:
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

local call = redis.call
local max, min, ceil, floor, abs = math.max, math.min, math.ceil, math.floor, math.abs
local pack, unpack_numbers = struct.pack, struct.unpack
local action, numbers = ARGV[1], ARGV[2]
local known, at_row = unpack_numbers('<d', numbers)
local isReturn = action == 'settle' or action == 'refund' or action == 'give_back' or action == 'renew'

-- A number of ms as Redis accepts it.
local function whole(ms)
  return min(max(ceil(ms), 1), MAX_TTL_MS)
end

local function is_finite(number)
  return number - number == 0
end

-- Sets when the record of a row was created; the time is negative if it was created by a reset.
local function set_begun(row, begun)
  -- If the clock was set back, the record must not be newer than later takes.
  row.begun = is_finite(begun) and min(begun, wall) or 0
  row.reset = max(0, -row.begun)
end

-- The kinds of counters by their numbers. Each is a table of functions on one row.
--   read       reads the numbers of a row that begin at `at`, and its record. Returns the row and where the next one begins. The row has `kind`, `key`, the
--              numbers that are used later, `exists`, `left` (for the calling instance, so at most `most`, unless the record was reset since `moment`), `begun`
--              and `reset` (set_begun), `leased`, `warning` and `refunded`, all three 0, and what `take` and the others write; or `misses`, and nothing
--              is done in any row
--   take       takes `cost`, and leases up to `more` where it can: writes the record, `left` and `leased`
--   give_back  gives `cost` back, or charges it where it is below zero; never called for a record that does not include the take
--   reset      replaces the record by a new one, created at `begun`, which is below zero; kept for RESET_KEPT_MS, or until its window ends
--   renew      for kinds with holds: moves `cost` holds to the current slice; never called for a record that was reset since they were taken
--   write      writes a record after the clock was set back (`stepped`), for kinds that set it
local KINDS = {}
