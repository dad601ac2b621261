-- Arguments: a file with one request; for many keys also the first key's number and how many there are.
function init(args)
  local file = assert(io.open(args[1], "rb"))
  local text = file:read("*a")
  file:close()
  wrk.format = function() return text end
  if args[2] == nil then return end

  local number, count = tonumber(args[2]), tonumber(args[3])
  local before, after = text:match("^(.*key%-)%d+(.*)$")
  function request()
    number = number + 1
    -- Neighbours in time are no neighbours in number.
    return before .. (1000000 + number * 7919 % count) .. after
  end
end

function done(summary)
  local errors = summary.errors
  io.write(string.format('\n{"requests":%d,"elapsedUs":%d,"rejected":%d,"failed":%d}\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
