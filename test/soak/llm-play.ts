import { type Asked, promptTokens } from '../../src/fake-llm/call.ts'
import { ENDPOINTS } from '../../src/fake-llm/endpoints.ts'
import { DEFAULT_OPTIONS, type FakeLlmOptions, LINE_ENDS, type LineEnd } from '../../src/fake-llm/flags.ts'
import type { Random } from '../support/random/random.ts'

/** What the rule of all budgets here says. */
export const MAX_COMPLETION = 60
export const BUFFER_TOKENS = 10

const CHATTY = ['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages']
const PATHS = [...CHATTY, ...CHATTY, '/v1/embeddings']
const FAILURES = ['none', 'none', 'none', 'none', 'status', 'reset', 'stall', 'garbage', 'error-event'] as const

/** A request, how the backend is told to answer it, and what that must cost. */
export interface LlmPlay {
  readonly path: string
  readonly asked: Asked
  readonly options: FakeLlmOptions
  readonly promptTokens: number
  readonly reservedTokens: number
  /** What the client sees of it when nobody interferes: all of it, less than that, or a part after which nothing comes any more. */
  readonly end: 'whole' | 'broken' | 'stalled'
  /** What is charged for it when it ends so: no more, no less. Where `isPartial`, between the prompt and this. */
  readonly cost: number
  readonly isPartial: boolean
  /** Tokens that its client sees before `end`. */
  readonly seenTokens: number
}

export function randomPlay(random: Random): LlmPlay {
  const path = random.oneOf(PATHS)
  const tokensPerEvent = 1 + random.below(4)
  const options: FakeLlmOptions = {
    ...DEFAULT_OPTIONS,
    tokens: random.below(random.oneOf([5, 50, 150])),
    delayMs: random.below(random.oneOf([1, 30])),
    tokenMs: random.below(random.oneOf([1, 1, 6])),
    tokensPerEvent,
    chunkBytes: random.oneOf([0, 0, 0, 50, 1000]),
    hasUsage: random.below(3) > 0,
    isGzip: random.below(8) === 0,
    lineEnd: random.oneOf(Object.keys(LINE_ENDS) as LineEnd[]),
    fail: random.oneOf(FAILURES),
    failAfterTokens: random.below(2) * random.below(60),
  }
  return playOf(path, randomRequest(path, random), options)
}

function randomRequest(path: string, random: Random): Asked {
  const text = 'word'.repeat(1 + random.below(random.oneOf([4, 40])))
  const bound = random.below(2) === 0 ? {} : { max_tokens: 1 + random.below(100) }
  if (path === '/v1/embeddings') return { input: text }
  const stream = random.below(3) > 0
  const usage = random.below(2) === 0 ? {} : { stream_options: { include_usage: true } }
  const choices = random.below(4) === 0 ? { n: 2 } : {}
  if (path === '/v1/responses') return { input: text, stream, ...('max_tokens' in bound && { max_output_tokens: bound.max_tokens }) }
  if (path === '/v1/messages') return { messages: [{ role: 'user', content: text }], stream, ...bound }
  if (path === '/v1/completions') return { prompt: text, stream, ...bound, ...choices, ...(stream && usage) }
  return { messages: [{ role: 'user', content: text }], stream, ...bound, ...choices, ...(stream && usage) }
}

function playOf(path: string, asked: Asked, options: FakeLlmOptions): LlmPlay {
  const prompt = promptTokens(asked)
  const isStream = asked['stream'] === true && ENDPOINTS.get(path)!.stream !== undefined
  const asksFor = ((asked['max_tokens'] ?? asked['max_output_tokens']) as number | undefined) ?? Number.POSITIVE_INFINITY
  const bound = Math.min(asksFor * ((asked['n'] as number | undefined) ?? 1), MAX_COMPLETION)
  const reservedTokens = prompt + (path === '/v1/embeddings' ? 0 : bound)
  const ending = isStream ? streamEnding(path, asked, options, prompt) : wholeEnding(path, asked, options, prompt)
  // A response with neither text nor usage costs what was reserved for it.
  const isEmpty = ending.end === 'whole' && ending.cost === prompt && ending.seenTokens === 0 && !saysUsage(path, asked, options, isStream)
  if (isEmpty) return { path, asked, options, promptTokens: prompt, reservedTokens, ...ending, cost: reservedTokens }
  return { path, asked, options, promptTokens: prompt, reservedTokens, ...ending }
}

/** Streams of OpenAI's older APIs say it only where they are asked to. */
function saysUsage(path: string, asked: Asked, { hasUsage }: FakeLlmOptions, isStream: boolean): boolean {
  return hasUsage && (!isStream || !path.endsWith('/completions') || asked['stream_options'] !== undefined)
}

type Ending = Pick<LlmPlay, 'end' | 'cost' | 'isPartial' | 'seenTokens'>

function wholeEnding(path: string, asked: Asked, options: FakeLlmOptions, prompt: number): Ending {
  const { body, tokens } = ENDPOINTS.get(path)!.whole(asked, options)
  const ending = { isPartial: false, seenTokens: 0 }
  const { fail, failAfterTokens } = options
  if (fail === 'status' || fail === 'error-event') return { ...ending, end: 'whole', cost: 0 }
  if (fail === 'none' || tokens < failAfterTokens) return { ...ending, end: 'whole', cost: prompt + tokens, seenTokens: tokens }
  // A compressed response that breaks off is charged by its size, if that is more than was reserved.
  const most = options.isGzip ? Math.max(tokens, Math.ceil(JSON.stringify(body).length / 4)) : tokens
  if (fail !== 'stall') return { ...ending, end: 'broken', cost: 0, seenTokens: most }
  // Half of it comes, or nothing.
  return { ...ending, end: 'stalled', cost: failAfterTokens > 0 ? prompt + tokens : prompt, isPartial: failAfterTokens > 0 }
}

/** Goes through the events as the rule does: it looks when enough tokens have come since its last look. */
function streamEnding(path: string, asked: Asked, options: FakeLlmOptions, prompt: number): Ending {
  const { fail, failAfterTokens } = options
  const ending = { isPartial: false }
  if (fail === 'status') return { ...ending, end: 'whole', cost: 0, seenTokens: 0 }
  let [tokens, lookedAt] = [0, 0]
  for (const event of ENDPOINTS.get(path)!.stream!.events(asked, options)) {
    if (fail !== 'none' && tokens >= failAfterTokens) {
      if (fail === 'error-event') return { ...ending, end: 'whole', cost: tokens > 0 ? prompt + tokens : 0, seenTokens: tokens }
      if (fail === 'stall') return { ...ending, end: 'stalled', cost: prompt + tokens, seenTokens: tokens }
      return { ...ending, end: 'broken', cost: 0, seenTokens: tokens }
    }
    tokens += event.tokens
    if (tokens - lookedAt < BUFFER_TOKENS) continue
    lookedAt = tokens
    if (tokens > MAX_COMPLETION) return { ...ending, end: 'whole', cost: prompt + tokens, seenTokens: tokens - event.tokens }
  }
  return { ...ending, end: 'whole', cost: prompt + tokens, seenTokens: tokens }
}
