// `npm run bench:json`: reading the cost of an LLM request by the scanner, next to JSON.parse of
// the same bytes, which builds a tree. Each case has 4 MB. CPU time, medians over interleaved rounds, and what a step of 16 KiB takes.
import { LlmRequestReader } from '../dist/llm/llm-request.js'
import { median, ratio } from './support/statistics.mjs'

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 15)
const BYTES = 4_000_000
const STEP_BYTES = 16 * 1024
const CASES = {
  'one long text': `{"messages":[{"role":"user","content":"${'All work and no play. '.repeat(BYTES / 22)}"}]}`,
  'messages of 200 characters': list('messages', `{"role":"user","content":"${'All work and no play. '.repeat(9)}"}`),
  'text in Chinese': `{"messages":[{"role":"user","content":"${'東京都の天気'.repeat(BYTES / 18)}"}]}`,
  'text with escapes': `{"messages":[{"role":"user","content":"${'a line of it\\n\\"so\\" '.repeat(BYTES / 21)}"}]}`,
  'token ids': list('input', '31415'),
  '{"content":"a"},': list('messages', '{"content":"a"}'),
  '{},': list('messages', '{}'),
  '[],': list('messages', '[]'),
}

console.log(`node ${process.version}, ${ROUNDS} rounds\n\n  MB/s  × JSON.parse  ms per step  case`)
for (const [name, text] of Object.entries(CASES)) {
  const bytes = Buffer.from(text)
  const scanMs = []
  const parseMs = []
  for (let round = 0; round < ROUNDS + 2; round++) {
    const scanned = cpuMs(() => scan(bytes))
    const parsed = cpuMs(() => JSON.parse(bytes.toString('utf8')))
    if (round < 2) continue
    scanMs.push(scanned)
    parseMs.push(parsed)
  }
  const perSecond = bytes.length / 1000 / median(scanMs)
  const stepMs = STEP_BYTES / 1000 / perSecond
  const speedUp = ratio(parseMs, scanMs).median
  console.log(`${perSecond.toFixed(0).padStart(6)} ${speedUp.toFixed(1).padStart(13)} ${stepMs.toFixed(2).padStart(12)}  ${name}`)
}

function scan(bytes) {
  const reader = new LlmRequestReader()
  for (let from = 0; from < bytes.length; from += STEP_BYTES) reader.push(bytes, from, Math.min(from + STEP_BYTES, bytes.length))
  return reader.end()
}

/** Of this process: a busy machine does not count. */
function cpuMs(run) {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

function list(name, value) {
  return `{"${name}":[${Array(Math.floor(BYTES / (value.length + 1)))
    .fill(value)
    .join(',')}]}`
}
