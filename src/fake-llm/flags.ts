import { FAILURES_TEXT, type Failure, type Fault, readFaults } from './faults.ts'

export const LINE_ENDS = { lf: '\n', crlf: '\r\n', cr: '\r' } as const
export type LineEnd = keyof typeof LINE_ENDS

/** How the backend behaves. A request keeps the options that applied when it arrived. */
export interface FakeLlmOptions {
  /** Length of a choice's completion, unless the request allows fewer tokens. */
  tokens: number
  /** Delay before the first byte of a response. */
  delayMs: number
  /** Delay between two events of a stream. */
  tokenMs: number
  tokensPerEvent: number
  /** Size of each write of a response; 0 means one write for each event. */
  chunkBytes: number
  hasUsage: boolean
  /** Number of prompt tokens that usage reports as read from the cache, up to the length of the prompt. */
  cachedTokens: number
  /** Whether responses are compressed, even if the client did not ask for it. */
  isGzip: boolean
  lineEnd: LineEnd
  /** How every response fails that none of the `faults` meets. */
  fail: Failure
  /** What goes wrong with shares of all requests. */
  faults: readonly Fault[]
  /** Chooses which requests the faults meet, from the start of the backend; undefined: at random. */
  seed: number | undefined
  /** The Retry-After of responses with the status 429 or 503; undefined: none. */
  retryAfterS: number | undefined
  /** Number of tokens, over all choices, that are sent at least before the failure. With 0, not even the headers are sent. */
  failAfterTokens: number
}

export const DEFAULT_OPTIONS: Readonly<FakeLlmOptions> = {
  tokens: 64,
  delayMs: 0,
  tokenMs: 0,
  tokensPerEvent: 1,
  chunkBytes: 0,
  hasUsage: true,
  cachedTokens: 0,
  isGzip: false,
  lineEnd: 'lf',
  fail: 'none',
  faults: [],
  seed: undefined,
  retryAfterS: undefined,
  failAfterTokens: 0,
}

/** The options that take a value on the command line. The other options are switches. */
type Valued = Omit<FakeLlmOptions, 'hasUsage' | 'isGzip' | 'fail'> & { port: number; host: string }

interface Flag<Value> {
  readonly name: string
  readonly about: string
  /** Whether it may be given several times. Then the texts are read together, with commas between them. */
  readonly isRepeatable?: true
  /** Throws a BadValue that completes the sentence "--name: expected …". */
  read(text: string): Value
}

class BadValue extends Error {}

// The longest delay that setTimeout accepts.
const MAX_DURATION_MS = 2 ** 31 - 1
const MAX_TOKENS = 100_000
const MAX_RETRY_AFTER_S = 86_400
const LINE_END_NAMES = Object.keys(LINE_ENDS) as LineEnd[]

const DEFAULTS: Valued & FakeLlmOptions = { port: 9000, host: '127.0.0.1', ...DEFAULT_OPTIONS }

const FLAGS: { readonly [Option in keyof Valued]: Flag<Valued[Option]> } = {
  port: { name: 'port', about: 'port to listen on; 0: any free one', read: whole(0, 65_535) },
  host: { name: 'host', about: 'address to listen on', read: readHost },
  tokens: { name: 'tokens', about: 'tokens of a completion, unless the request allows fewer', read: whole(0, MAX_TOKENS) },
  delayMs: { name: 'delay-ms', about: 'milliseconds before the first byte of a response', read: whole(0, MAX_DURATION_MS) },
  tokenMs: { name: 'token-ms', about: 'milliseconds between two events of a stream', read: whole(0, MAX_DURATION_MS) },
  tokensPerEvent: { name: 'tokens-per-event', about: 'tokens in one event of a stream', read: whole(1, MAX_TOKENS) },
  chunkBytes: { name: 'chunk-bytes', about: 'bytes per write; 0: one write per event', read: whole(0, 2 ** 30) },
  cachedTokens: { name: 'cached-tokens', about: 'prompt tokens that usage reports as cached', read: whole(0, MAX_TOKENS) },
  lineEnd: { name: 'line-end', about: `line endings of a stream: ${LINE_END_NAMES.join(', ')}`, read: choice(LINE_END_NAMES) },
  faults: {
    name: 'fail',
    about: `how responses fail: ${FAILURES_TEXT}; with a share of them: 429:0.2; repeatable`,
    isRepeatable: true,
    read: faultsIn,
  },
  retryAfterS: { name: 'retry-after', about: 'seconds in Retry-After of failures 429 and 503', read: whole(0, MAX_RETRY_AFTER_S) },
  seed: { name: 'seed', about: 'whole number; with the same one the same requests fail', read: whole(0, 2 ** 32 - 1) },
  failAfterTokens: { name: 'fail-after', about: 'tokens sent before the failure; 0: fail before the headers', read: whole(0, MAX_TOKENS) },
}

const SWITCHES = {
  'no-usage': 'leave usage out of every response',
  gzip: 'compress responses even if the client did not ask for it',
} as const

type FlagsResult =
  | { readonly ok: true; readonly options: Valued & FakeLlmOptions }
  | { readonly ok: false; readonly problems: readonly string[] }

/** What parseArgs of node:util returns for `flagTypes`. */
export type GivenFlags = Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>

/** Reports every bad value, not only the first. */
export function readFlags(given: GivenFlags): FlagsResult {
  const problems: string[] = []
  const options: Record<string, unknown> = { ...DEFAULTS, hasUsage: !given['no-usage'], isGzip: given['gzip'] === true }
  for (const [option, { name, read }] of Object.entries<Flag<unknown>>(FLAGS)) {
    const value = given[name]
    const text = Array.isArray(value) ? value.join(',') : value
    if (typeof text !== 'string') continue
    try {
      options[option] = read(text)
    } catch (error) {
      if (!(error instanceof BadValue)) throw error
      problems.push(`--${name}: expected ${error.message}, got ${JSON.stringify(text)}`)
    }
  }
  return problems.length > 0 ? { ok: false, problems } : { ok: true, options: options as unknown as Valued & FakeLlmOptions }
}

/** Returns the flags in the form that parseArgs of node:util expects. */
export function flagTypes(): Record<string, { type: 'string' | 'boolean'; multiple?: boolean }> {
  const valued = Object.values<Flag<unknown>>(FLAGS).map(({ name, isRepeatable = false }) => [
    name,
    { type: 'string', multiple: isRepeatable },
  ])
  const switches = Object.keys(SWITCHES).map((name) => [name, { type: 'boolean' }])
  return Object.fromEntries([...valued, ...switches])
}

/** Returns each flag with its description. */
export function flagRows(): { readonly flag: string; readonly about: string }[] {
  const valued = (Object.keys(FLAGS) as (keyof Valued)[]).map((option) => ({
    flag: `--${FLAGS[option].name} VALUE`,
    about: `${FLAGS[option].about} [${shownDefault(DEFAULTS[option])}]`,
  }))
  return [...valued, ...Object.entries(SWITCHES).map(([name, about]) => ({ flag: `--${name}`, about }))]
}

function shownDefault(value: Valued[keyof Valued]): string | number {
  return typeof value === 'object' || value === undefined ? 'none' : value
}

function faultsIn(text: string): readonly Fault[] {
  const faults = readFaults(text)
  if ('expected' in faults) throw new BadValue(faults.expected)
  return faults
}

function whole(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= least && value <= most)) throw new BadValue(`a whole number from ${least} to ${most}`)
    return value
  }
}

function choice<Choice extends string>(choices: readonly Choice[]): (text: string) => Choice {
  return (text) => {
    if (!(choices as readonly string[]).includes(text)) throw new BadValue(`one of ${choices.join(', ')}`)
    return text as Choice
  }
}

function readHost(text: string): string {
  if (!/^[\w.:%-]+$/.test(text)) throw new BadValue('a host name or an address, without a port')
  return text
}
