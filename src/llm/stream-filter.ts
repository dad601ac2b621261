import { type Closing, type Dialect, isErrorEvent } from './dialects/dialect.ts'
import { defaultDialect, dialectOf } from './dialects/dialect-of.ts'
import { asObject, parseJson } from './json.ts'
import type { LlmSettings } from './llm-settings.ts'
import { canBeParsed, type EventData, readEventData } from './sse-event.ts'
import { SseFraming, type SsePiece } from './sse-framing.ts'
import { estimatedTokens } from './tokens.ts'
import { chatUsageText, countTokens, hasUsage, newTally, type TokenCounts } from './usage.ts'
import { spliceUsage } from './usage-splice.ts'

/** A larger event passes unread, like one with too many values: no model's text arrives in pieces this large. */
export const MAX_EVENT_BYTES = 1024 * 1024

/** The part of a rule that the filter uses. */
export interface StreamRule {
  readonly policy: { readonly isShadow: boolean }
  /** Defined for all rules passed to the filter. */
  readonly llm: LlmSettings | undefined
}

export interface StreamFilterOptions<Rule extends StreamRule> {
  /** The LLM rules that apply to this request and have streaming enabled, in bundle order. */
  readonly rules: readonly Rule[]
  readonly promptEstimate: number
  /** The client asked for a stream. One that it did not ask for is counted and never changed. */
  readonly isActivated: boolean
  /** Whether all rules are as in shadow mode, at the moment: then a stream is not cut. */
  readonly isShadowed?: () => boolean
  readonly maxEventBytes?: number
}

/** A rule whose max_completion_tokens the stream has exceeded. */
export interface Excess<Rule extends StreamRule = StreamRule> {
  readonly rule: Rule
  readonly completionTokens: number
}

/**
 * Reads an SSE response while it passes: counts what is generated, adds usage to events where a rule asks for it, and
 * cuts the stream where the first enforcing rule is exceeded. Returns the bytes to send on.
 */
export class StreamFilter<Rule extends StreamRule> {
  readonly #options: StreamFilterOptions<Rule>
  readonly #framing: SseFraming
  readonly #watches: Watch<Rule>[]
  readonly #addsUsage: boolean
  readonly #tally = newTally()
  #dialect: Dialect | undefined
  #hasError = false
  /** The stream has sent its end marker: no more text will follow. */
  hasEnded = false
  /** The rule that cut the stream. Nothing more passes. */
  cut: Excess<Rule> | undefined
  /** Rules of shadow policies that would have cut it; each once. */
  readonly wouldCut: Excess<Rule>[] = []

  constructor(options: StreamFilterOptions<Rule>) {
    this.#options = options
    this.#framing = new SseFraming(options.maxEventBytes ?? MAX_EVENT_BYTES)
    this.#watches = options.rules.map((rule) => ({ rule, checkedAtTokens: 0, isExceeded: false }))
    const mayChange = options.isActivated && !options.isShadowed?.()
    this.#addsUsage = mayChange && options.rules.some(({ policy, llm }) => !policy.isShadow && llm!.streaming.includePartialUsage)
  }

  push(chunk: Buffer): Buffer {
    return this.#passOn(this.#framing.push(chunk))
  }

  end(): Buffer {
    return this.#passOn(this.#framing.end())
  }

  /** Ends a stream whose caller is blocked, in the way of its first enforcing rule. Returns the bytes that end it. */
  close(): Buffer {
    const rule = this.#options.rules.find(({ policy }) => !policy.isShadow)
    if (rule === undefined || this.hasEnded) return Buffer.alloc(0)
    const closing = this.#closing(rule, rule.llm!.streaming.onLimitExceeded === 'graceful_close' ? 'graceful_close' : 'blocked')
    return this.isBetweenEvents ? closing : Buffer.concat([BLANK_LINE, closing])
  }

  /** The bytes so far end with a complete event. */
  get isBetweenEvents(): boolean {
    return !this.#framing.isInsideOversize
  }

  /** The cost of the response so far. */
  get counts(): TokenCounts {
    return countTokens(this.#tally, this.#options.promptEstimate)
  }

  /** By our own estimate, ignoring the provider's count. */
  get estimatedCompletionTokens(): number {
    return estimatedTokens(this.#tally.characters)
  }

  /** The provider sent its own count of the completion. */
  get hasProviderCount(): boolean {
    return this.#tally.completionTokens !== undefined
  }

  get hasUsage(): boolean {
    return hasUsage(this.#tally)
  }

  /** The response was an error and nothing else. */
  get hasFailed(): boolean {
    return this.#hasError && this.#tally.characters === 0 && !this.hasUsage
  }

  #passOn(pieces: readonly SsePiece[]): Buffer {
    const out: Buffer[] = []
    for (const piece of pieces) {
      if (this.cut !== undefined) break
      this.#read(piece, out)
    }
    return out.length === 1 ? out[0]! : Buffer.concat(out)
  }

  #read(piece: SsePiece, out: Buffer[]): void {
    const { bytes, kind } = piece
    if (kind === 'event') return this.#readEvent(piece, out)
    out.push(bytes)
    if (kind === 'line_end') return
    this.#tally.characters += bytes.length
    if (kind === 'oversize') this.#checkAfter(piece, out)
  }

  /** It has passed already, at least in part, and was counted by its size: a cut comes after it. */
  #checkAfter(piece: SsePiece, out: Buffer[]): void {
    this.#check()
    if (this.cut === undefined) return
    if (!piece.isEnded) out.push(BLANK_LINE)
    out.push(this.#closing(this.cut.rule))
  }

  #readEvent(piece: SsePiece, out: Buffer[]): void {
    const data = readEventData(piece)
    if (data === undefined) return void out.push(piece.bytes)
    if (!canBeParsed(piece.bytes, data)) {
      out.push(piece.bytes)
      this.#tally.characters += piece.bytes.length
      return this.#checkAfter(piece, out)
    }
    if (data.text.startsWith('[DONE]') && data.text.trimEnd() === '[DONE]') this.hasEnded = true
    const isObject = data.text.charCodeAt(0) === OPEN_BRACE || BEGINS_OBJECT.test(data.text)
    const event = isObject ? asObject(parseJson(data.text)) : undefined
    if (event === undefined) return void out.push(piece.bytes)
    this.#dialect ??= dialectOf(event)
    const meaning = this.#dialect?.read(event, this.#tally) ?? (isErrorEvent(event) ? 'error' : 'content')
    if (meaning === 'end') this.hasEnded = true
    if (meaning === 'error') this.#hasError = true
    this.#check()
    if (this.cut !== undefined) return void out.push(this.#closing(this.cut.rule))
    this.#dialect?.remember(event)
    out.push(this.#addsUsage && Array.isArray(event['choices']) ? this.#withUsage(piece.bytes, data, event['usage']) : piece.bytes)
  }

  /** Checks each rule for which enough tokens have passed since its last check. */
  #check(): void {
    const completionTokens = this.estimatedCompletionTokens
    for (const watch of this.#watches) {
      const { rule } = watch
      const { maxCompletionTokens, streaming } = rule.llm!
      if (completionTokens - watch.checkedAtTokens < streaming.bufferTokens) continue
      watch.checkedAtTokens = completionTokens
      if (watch.isExceeded || maxCompletionTokens === undefined || completionTokens <= maxCompletionTokens) continue
      watch.isExceeded = true
      if (!this.#options.isActivated || !streaming.enforceMidStream) continue
      if (rule.policy.isShadow || this.#options.isShadowed?.()) this.wouldCut.push({ rule, completionTokens })
      else this.cut ??= { rule, completionTokens }
    }
  }

  #closing(rule: Rule, how: Closing = rule.llm!.streaming.onLimitExceeded): Buffer {
    const dialect = this.#dialect ?? defaultDialect()
    return Buffer.from(dialect.closing(how, this.counts, rule.llm!.streaming.includePartialUsage))
  }

  #withUsage(bytes: Buffer, { spans }: EventData, usage: unknown): Buffer {
    if (usage !== undefined && usage !== null) return bytes
    return spliceUsage(bytes, spans, chatUsageText(this.counts), usage === null)
  }
}

const BLANK_LINE = Buffer.from('\n\n')
const OPEN_BRACE = 0x7b
const BEGINS_OBJECT = /^\s*\{/

interface Watch<Rule> {
  readonly rule: Rule
  checkedAtTokens: number
  isExceeded: boolean
}
