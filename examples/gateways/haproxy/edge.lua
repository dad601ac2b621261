-- Asks edge about each request. haproxy.cfg says where edge is, and how long it may take.

-- What happens to requests while edge is gone, does not respond or has no bundle.
local IS_FAIL_OPEN = false -- fail closed
--local IS_FAIL_OPEN = true -- fail open

-- The socket of the frontend "edge" in haproxy.cfg.
local SOCKET = "abns@edge"
-- HAProxy gives up on edge before that.
local TIMEOUT_MS = 5000
-- Lua's HTTP client crashes, and HAProxy with it, if a question has more header fields than tune.http.maxhdr allows (101).
local MAX_FIELDS = 80

local function set_of(names)
  local set = {}
  for _, name in ipairs(names) do
    set[name] = true
  end
  return set
end

local NOT_PASSED_ON = set_of({
  -- They belong to the client's connection and body.
  "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
  -- Clients must not set these themselves.
  "x-asn-type", "x-tor-exit", "x-edge-settle", "x-edge-reservation", "x-edge-prompt-tokens", "x-edge-max-tokens", "x-edge-model",
  -- The header that a `cost` in your bundle names.
  "x-request-cost",
})

-- On an allowed request they wait in variables until there is a response to put them on.
local RATELIMIT_FIELDS = {
  ["ratelimit"] = "txn.edge_ratelimit",
  ["ratelimit-limit"] = "txn.edge_ratelimit_limit",
  ["ratelimit-remaining"] = "txn.edge_ratelimit_remaining",
  ["ratelimit-reset"] = "txn.edge_ratelimit_reset",
}
-- On a reject the client gets all fields but these, which belong to the connection to edge.
local NOT_PASSED_BACK = set_of({ "connection", "content-length", "keep-alive" })

-- What edge is asked about, and the other fields of the request, and how many these are. A field that comes twice is passed on twice.
local function question_fields(txn)
  local fields, count = {}, 0
  for name, values in pairs(txn.http:req_get_headers()) do
    if not NOT_PASSED_ON[name] then
      fields[name] = {}
      for i = 0, #values do
        fields[name][i + 1] = values[i]
        count = count + 1
      end
    end
  end
  -- In place of what the client may have sent.
  fields["x-original-method"] = { txn.f:method() }
  fields["x-original-uri"] = { txn.f:pathq() }
  fields["x-original-host"] = { txn.f:req_fhdr("host") }
  fields["x-forwarded-for"] = { txn.f:src() }
  return fields, count
end

local function allow(txn, fields)
  txn:set_var("txn.edge_allows", true)
  for name, variable in pairs(RATELIMIT_FIELDS) do
    if fields[name] then
      txn:set_var(variable, fields[name][0])
    end
  end
end

local function reject(txn, status, fields)
  local reply = txn:reply({ status = status })
  for name, values in pairs(fields) do
    if not NOT_PASSED_BACK[name] then
      reply:add_header(name, values[0])
    end
  end
  txn:done(reply)
end

core.register_action("edge", { "http-req" }, function(txn)
  local fields, count = question_fields(txn)
  if count > MAX_FIELDS then
    return reject(txn, 431, {})
  end
  local answer = core.httpclient():post({
    url = "http://127.0.0.1/v1/decision",
    dst = SOCKET,
    headers = fields,
    timeout = TIMEOUT_MS,
  })
  local status = answer and answer.status or 0
  if status == 200 then
    allow(txn, answer.headers)
  elseif status >= 400 and status < 500 then
    reject(txn, status, answer.headers)
  elseif IS_FAIL_OPEN then
    allow(txn, {})
  else
    reject(txn, 503, {})
  end
end)
