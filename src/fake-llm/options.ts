export const FAILURES = ['none', 'status', 'reset', 'stall', 'garbage', 'error-event'] as const
type Failure = (typeof FAILURES)[number]

export const LINE_ENDS = { lf: '\n', crlf: '\r\n', cr: '\r' } as const
export type LineEnd = keyof typeof LINE_ENDS

/** How the backend behaves. A request keeps what held when it came in. */
export interface FakeLlmOptions {
  /** The longest completion of a choice. */
  tokens: number
  /** Before the first byte of a response. */
  delayMs: number
  /** Between two events of a stream. */
  tokenMs: number
  tokensPerEvent: number
  /** Size of each write of a response; 0: a write for each event. */
  chunkBytes: number
  hasUsage: boolean
  /** How many tokens of a prompt usage reports as read from the cache, if the prompt has so many. */
  cachedTokens: number
  /** Compresses whatever the client accepts. */
  isGzip: boolean
  lineEnd: LineEnd
  fail: Failure
  /** At least so many tokens go out before the failure, over all choices. 0: not even the head. */
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
  failAfterTokens: 0,
}
