// One case of the filter alone, in a process of its own: it filters streams when told to and says how fast that was.
import { StreamFilter } from '../../dist/llm/stream-filter.js'
import { compileBundle } from '../../dist/policy/compile.js'
import { parseBundle } from '../../dist/policy/parse.js'

const [, , dialect, addsUsage] = process.argv

const EVENTS_PER_STREAM = 500
const CHUNK_BYTES = 16 * 1024
/** What a model says, cut roughly as tokens are: a tenth of them has something to escape or is beyond ASCII. */
const TEXT =
  'The filter reads every event on its way through. It "counts" what was generated, and it adds usage where a rule asks for it.\n\n' +
  'Most words are plain – a café or a naïve 😀 now and then is not.\n1. One list\n2. Another\n\nSo it goes on, and on, until the end is reached. '
const TOKENS = TEXT.match(/ ?[\p{L}\d]{1,6}|\s?[^\p{L}\d\s]|\s+/gu)

const CHAT_FIELDS =
  '"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o-2024-08-06",' +
  '"service_tier":"default","system_fingerprint":"fp_fc9f1d7035"'

const DIALECTS = {
  chat: (text) => `data: {${CHAT_FIELDS},"choices":[{"index":0,"delta":{"content":${text}},"logprobs":null,"finish_reason":null}]}\n\n`,
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

function run(pieces, streams) {
  const start = process.hrtime.bigint()
  for (let i = 0; i < streams; i++) filterStream(pieces)
  return Number(process.hrtime.bigint() - start) / (streams * EVENTS_PER_STREAM)
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
  const isRight = filter.counts.completion === Math.ceil(characters / 4) && size > bytes.length === (addsUsage === 'true')
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
