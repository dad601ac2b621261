// One case of the filter alone, in a process of its own: it filters streams when told to and says how fast that was.
import { StreamFilter } from '../../dist/llm/stream-filter.js'
import { compileBundle } from '../../dist/policy/compile.js'
import { parseBundle } from '../../dist/policy/parse.js'
import { chatEvent, TOKENS } from './events.mjs'

const [, , dialect, addsUsage] = process.argv

const EVENTS_PER_STREAM = 500
const CHUNK_BYTES = 16 * 1024
const DIALECTS = {
  chat: chatEvent,
  anthropic: (text) =>
    `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":${text}}}\n\n`,
  responses: (text, i) =>
    `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":${i},` +
    `"item_id":"msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654","output_index":0,"content_index":0,"delta":${text}}\n\n`,
}

const rules = rulesWith({ include_partial_usage: addsUsage === 'true' })
const events = Array.from({ length: EVENTS_PER_STREAM }, (_, i) =>
  Buffer.from(DIALECTS[dialect](JSON.stringify(TOKENS[i % TOKENS.length]), i)),
)
const bytes = Buffer.concat(events)
const chunks = Array.from({ length: Math.ceil(bytes.length / CHUNK_BYTES) }, (_, i) =>
  bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES),
)
check()

const tasks = {
  single: (streams) => run(events, streams),
  chunked: (streams) => run(chunks, streams),
}

process.on('message', ({ task, streams }) => {
  if (tasks[task] !== undefined) process.send({ eventNs: tasks[task](streams) })
})
process.send({ port: 0 })

/** CPU time, for the clock also counts who else uses the machine. */
function run(pieces, streams) {
  const before = process.cpuUsage()
  for (let i = 0; i < streams; i++) filterStream(pieces)
  const { user, system } = process.cpuUsage(before)
  return ((user + system) * 1000) / (streams * EVENTS_PER_STREAM)
}

function filterStream(pieces) {
  const filter = new StreamFilter({ rules, promptEstimate: 100, isActivated: true })
  let size = 0
  for (const piece of pieces) size += filter.push(piece).length
  return { filter, size }
}

/** It does its job: counts every character, adds what it should, and passes on everything else. */
function check() {
  const { filter, size } = filterStream(events)
  const characters = events.reduce((sum, _, i) => sum + [...TOKENS[i % TOKENS.length]].length, 0)
  const isRight = filter.counts.output === Math.ceil(characters / 4) && size > bytes.length === (addsUsage === 'true')
  if (!isRight || size !== filterStream(chunks).size) throw new Error(`the filter does not do its job: ${dialect}`)
}

function rulesWith(streaming) {
  const rule = { name: 'tokens', limit_keys: [], algorithm: 'token_bucket_llm' }
  const config = { tokens_per_minute: 1_000_000_000, max_completion_tokens: 1_000_000, streaming }
  const policies = [{ id: 'p', spec: { rules: [{ ...rule, algorithm_config: config }] } }]
  const parsed = parseBundle(JSON.stringify({ bundle_version: 1, policies }))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return compileBundle(parsed.bundle).policies[0].rules
}
