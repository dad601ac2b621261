import { type UsageInsertion, usageInsertion } from './ask-usage.ts'
import { type Closing, type Dialect, type DialectName, isErrorEvent } from './dialects/dialect.ts'
import { defaultDialect, dialectOf } from './dialects/dialect-of.ts'
import { asObject, type JsonObject, parseJson } from './json.ts'
import type { LlmSettings } from './llm-request.ts'
import { canBeParsed, readEventData, SseFraming, type SsePiece } from './sse-framing.ts'
import {
  chatUsageText,
  countTokens,
  estimatedTokens,
  hasUsage,
  newTally,
  type ShownCounts,
  shownCounts,
  type TokenCounts,
} from './usage.ts'

/** A larger event passes unread, like one with too many values, because no model's text arrives in pieces this large. */
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
  /** Whether the client asked for a stream. A stream that it did not ask for is counted but never changed. */
  readonly isActivated: boolean
  /** Whether the provider's count was requested although the client did not ask for it. An event that contains nothing else is then not passed on. */
  readonly hidesUsage?: boolean
  /** Returns whether all rules are currently in shadow mode, so that the stream is not cut. */
  readonly isShadowed?: () => boolean
  /** The API of a stream of which nothing is understood, if the request's path says which. */
  readonly dialect?: DialectName | undefined
  /** Measures what the stream uses of budgets whose reservations grow; undefined if there are none. */
  readonly meter?: StreamMeter<Rule> | undefined
  readonly maxEventBytes?: number
}

/** Measures a stream while it passes. */
export interface StreamMeter<Rule extends StreamRule> {
  /** Number of completion tokens from which on it must be told what the stream has used. */
  readonly noticeAt: number
  /** Notes what the stream has used. Returns what ends the stream, if the budget of an enforcing rule is used up. */
  notice(used: TokenCounts): BudgetEnd<Rule> | undefined
}

/** A rule whose budget a stream has used up, and the code that an error has then. */
export interface BudgetEnd<Rule extends StreamRule> {
  readonly rule: Rule
  readonly code: 'tpd_exceeded' | 'budget_exceeded'
}

/** A rule that a stream has exceeded: its max_completion_tokens, or its budget. */
export interface StreamExcess<Rule extends StreamRule = StreamRule> {
  readonly rule: Rule
  readonly completionTokens: number
  readonly cause: 'max_completion_tokens' | 'budget'
}

/**
 * Reads an SSE response while it passes: counts what is generated, adds usage to events if a rule asks for it, and cuts the stream once an enforcing
 * rule is exceeded.
 *
 * The caller may reuse a chunk when `push` returns, because what is kept is copied. The result is either a view of the chunk, valid only as long as
 * the chunk is, or a latin1 string.
 */
export class StreamFilter<Rule extends StreamRule> {
  readonly #options: StreamFilterOptions<Rule>
  readonly #framing: SseFraming
  readonly #out = new PassedBytes()
  readonly #watches: Watch<Rule>[]
  readonly #addsUsage: boolean
  readonly #tally = newTally()
  #dialect: Dialect | undefined
  #hasData = false
  #hasError = false
  /** Prompt and model as they were when the meter was last told: they change what the same completion costs. */
  #noticedPrompt: number | undefined = Number.NaN
  #noticedModel: string | undefined
  /** Whether the stream has sent its end marker, so that no more text will follow. */
  hasEnded = false
  /** The rule that cut the stream; once this is set, nothing more passes. */
  cut: StreamExcess<Rule> | undefined
  /** Rules in shadow mode that would have cut the stream, each of them once. */
  readonly wouldCut: StreamExcess<Rule>[] = []

  constructor(options: StreamFilterOptions<Rule>) {
    this.#options = options
    this.#framing = new SseFraming(options.maxEventBytes ?? MAX_EVENT_BYTES)
    this.#watches = options.rules.map((rule) => ({ rule, checkedAtTokens: 0, isExceeded: false }))
    const mayChange = options.isActivated && !options.isShadowed?.()
    this.#addsUsage = mayChange && options.rules.some(({ policy, llm }) => !policy.isShadow && llm!.streaming.includePartialUsage)
  }

  /** Returns the bytes to send on. */
  push(chunk: Buffer): Buffer | string {
    if (this.cut !== undefined) return EMPTY
    this.#framing.push(chunk)
    while (this.cut === undefined && this.#framing.next()) this.#readPiece()
    return this.#out.take()
  }

  end(): Buffer | string {
    if (this.cut === undefined && this.#framing.finish()) this.#readPiece()
    return this.#out.take()
  }

  /** Ends a stream whose caller is blocked, in the way that its first enforcing rule prescribes. Returns the bytes that end it. */
  close(): Buffer {
    const rule = this.#options.rules.find(({ policy }) => !policy.isShadow)
    if (rule === undefined || this.hasEnded) return EMPTY
    const closing = this.#closing(rule, rule.llm!.streaming.onLimitExceeded === 'graceful_close' ? 'graceful_close' : 'blocked')
    return this.isBetweenEvents ? closing : Buffer.concat([Buffer.from(BLANK_LINE), closing])
  }

  /** Ends the stream because a budget turned out to be used up by what has passed. Returns the bytes that end it. */
  endAt(end: BudgetEnd<Rule>): Buffer {
    const isBetween = this.isBetweenEvents
    this.#cutAt(end)
    const closing = this.#closing(end.rule, this.#closingOf(end))
    return isBetween ? closing : Buffer.concat([Buffer.from(BLANK_LINE), closing])
  }

  /** Whether all of the text has probably passed: the provider has counted it, which it does at the end, or has said why it ended. */
  get hasFinished(): boolean {
    const isCounted = this.hasProviderCount && this.#tally.characters === this.#tally.countedCharacters
    return this.hasEnded || isCounted || this.#dialect?.hasFinished === true
  }

  /** Whether the bytes passed on so far end with a complete event. */
  get isBetweenEvents(): boolean {
    return !this.#framing.isInsideOversize
  }

  /** Cost of the response so far. */
  get counts(): TokenCounts {
    return countTokens(this.#tally, this.#options.promptEstimate)
  }

  /** The same as clients see it, in the words of the response's API. */
  get #shown(): ShownCounts {
    return shownCounts(this.#tally, this.#options.promptEstimate)
  }

  /** Completion tokens by our own estimate, ignoring the provider's count. */
  get estimatedCompletionTokens(): number {
    return estimatedTokens(this.#tally.characters)
  }

  /** Whether the provider sent its own count of the completion. */
  get hasProviderCount(): boolean {
    return this.#tally.completionTokens !== undefined
  }

  get hasUsage(): boolean {
    return hasUsage(this.#tally)
  }

  /** Whether the response had usage, or text that we know how to read. */
  get isUnderstood(): boolean {
    return this.hasUsage || this.#tally.characters > 0
  }

  /** Whether the events have data, and belong to an API that we do not know. */
  get isForeign(): boolean {
    return this.#hasData && this.#dialect === undefined
  }

  /** Whether the response was an error and nothing else. */
  get hasFailed(): boolean {
    return this.#hasError && this.#tally.characters === 0 && !this.hasUsage
  }

  #readPiece(): void {
    const { bytes, start, end, kind } = this.#framing
    if (kind === 'event') return this.#readEvent()
    this.#out.pass(bytes, start, end)
    if (kind === 'line_end') return
    this.#tally.characters += end - start
    this.#checkAfter(end - start, kind)
  }

  /**
   * Checks after an event that has already passed, at least in part, and was counted by its size: a cut comes after it. Within the event only budgets are
   * checked: what they grant is used up by every read.
   */
  #checkAfter(characters: number, kind: SsePiece['kind']): void {
    const end = this.#check(characters, kind === 'part')
    if (this.cut === undefined) return
    if (!this.#framing.isEnded) this.#out.add(BLANK_LINE)
    this.#addClosing(this.cut, end)
  }

  #readEvent(): void {
    const piece = this.#framing
    const { bytes, start, end } = piece
    const data = readEventData(piece)
    if (data === undefined) return this.#out.pass(bytes, start, end)
    if (!canBeParsed(piece, data)) {
      this.#out.pass(bytes, start, end)
      this.#tally.characters += end - start
      return this.#checkAfter(end - start, piece.kind)
    }
    const isEnd = data.text.startsWith('[DONE]') && data.text.trimEnd() === '[DONE]'
    if (isEnd) this.hasEnded = true
    else if (data.text !== '') this.#hasData = true
    const isObject = data.text.charCodeAt(0) === OPEN_BRACE || BEGINS_OBJECT.test(data.text)
    const event = isObject ? asObject(parseJson(data.text)) : undefined
    if (event === undefined) return this.#out.pass(bytes, start, end)
    this.#dialect ??= dialectOf(event)
    if (!this.#passes(event)) return
    if (this.#options.hidesUsage === true && hasUsageOnly(event)) return
    const insertion = this.#addsUsage && Array.isArray(event['choices']) ? usageInsertion(bytes, data.spans, event['usage']) : undefined
    if (insertion === undefined) this.#out.pass(bytes, start, end)
    else this.#passWithUsage(bytes, start, end, insertion)
  }

  /** Counts an event. Returns false if the stream is cut instead of passing it. */
  #passes(event: JsonObject): boolean {
    const before = this.#tally.characters
    const meaning = this.#dialect?.read(event, this.#tally) ?? (isErrorEvent(event) ? 'error' : 'content')
    if (meaning === 'end') this.hasEnded = true
    if (meaning === 'error') this.#hasError = true
    const end = this.#check(this.#tally.characters - before)
    if (this.cut === undefined) this.#dialect?.remember(event)
    else this.#addClosing(this.cut, end)
    return this.cut === undefined
  }

  /**
   * Checks each rule that has let enough tokens pass since its last check, and the meter. `characters` is the length of the new text. Returns the budget that
   * cuts the stream, if one does.
   */
  #check(characters: number, isPart = false): BudgetEnd<Rule> | undefined {
    if (!isPart) this.#checkBounds()
    const { meter } = this.#options
    if (meter === undefined || this.cut !== undefined) return undefined
    const end = this.#measure(meter)
    // Events without text are passed on: they are the last ones of a stream, or cost nothing.
    if (end === undefined || characters === 0 || this.#options.isShadowed?.()) return undefined
    this.#cutAt(end)
    return end
  }

  #measure(meter: StreamMeter<Rule>): BudgetEnd<Rule> | undefined {
    const { promptTokens, completionTokens = 0, model } = this.#tally
    const output = Math.max(completionTokens, this.estimatedCompletionTokens)
    if (output < meter.noticeAt && promptTokens === this.#noticedPrompt && model === this.#noticedModel) return undefined
    this.#noticedPrompt = promptTokens
    this.#noticedModel = model
    return meter.notice(this.counts)
  }

  #cutAt({ rule }: BudgetEnd<Rule>): void {
    this.cut = { rule, completionTokens: this.counts.output, cause: 'budget' }
  }

  #checkBounds(): void {
    const completionTokens = this.estimatedCompletionTokens
    for (const watch of this.#watches) {
      const { rule } = watch
      const { maxCompletionTokens, streaming } = rule.llm!
      if (completionTokens - watch.checkedAtTokens < streaming.bufferTokens) continue
      watch.checkedAtTokens = completionTokens
      if (watch.isExceeded || maxCompletionTokens === undefined || completionTokens <= maxCompletionTokens) continue
      watch.isExceeded = true
      if (!this.#options.isActivated || !streaming.enforceMidStream) continue
      const excess = { rule, completionTokens, cause: 'max_completion_tokens' } as const
      if (rule.policy.isShadow || this.#options.isShadowed?.()) this.wouldCut.push(excess)
      else this.cut ??= excess
    }
  }

  #addClosing({ rule }: StreamExcess<Rule>, end: BudgetEnd<Rule> | undefined): void {
    const closing = this.#closing(rule, end && this.#closingOf(end))
    this.#out.pass(closing, 0, closing.length)
  }

  #closingOf({ rule, code }: BudgetEnd<Rule>): Closing {
    return rule.llm!.streaming.onLimitExceeded === 'graceful_close' ? 'graceful_close' : code
  }

  #closing(rule: Rule, how: Closing = rule.llm!.streaming.onLimitExceeded): Buffer {
    const dialect = this.#dialect ?? defaultDialect(this.#options.dialect)
    return Buffer.from(dialect.closing(how, this.#shown, rule.llm!.streaming.includePartialUsage))
  }

  #passWithUsage(bytes: Buffer, start: number, end: number, { at, replaced, before }: UsageInsertion): void {
    this.#out.pass(bytes, start, at)
    this.#out.add(`${before}${chatUsageText(this.#shown)}`)
    this.#out.pass(bytes, at + replaced, end)
  }
}

/** Recognises the last event of a chat stream for which usage was requested. */
function hasUsageOnly(event: JsonObject): boolean {
  const { choices, usage } = event
  return Array.isArray(choices) && choices.length === 0 && asObject(usage) !== undefined && !isErrorEvent(event)
}

const EMPTY = Buffer.alloc(0)
const BLANK_LINE = '\n\n'
const OPEN_BRACE = 0x7b
const BEGINS_OBJECT = /^\s*\{/

interface Watch<Rule> {
  readonly rule: Rule
  checkedAtTokens: number
  isExceeded: boolean
}

/**
 * Collects the bytes to send on. Adjacent bytes that are not changed need no copy. Others are joined as a latin1 string, which costs half as much as
 * a Buffer and is what is finally written to a socket.
 */
export class PassedBytes {
  /** Text collected before the current run of adjacent bytes. */
  #text = ''
  #bytes: Buffer = EMPTY
  #start = 0
  #end = 0

  pass(bytes: Buffer, start: number, end: number): void {
    if (bytes !== this.#bytes || start !== this.#end) {
      this.#endRun()
      this.#bytes = bytes
      this.#start = start
    }
    this.#end = end
  }

  /** Adds text, which must be ASCII. */
  add(text: string): void {
    this.#endRun()
    this.#text += text
  }

  /** Returns what was collected and starts over. The result may be a view of the bytes that were passed. */
  take(): Buffer | string {
    const taken = this.#text === '' ? this.#run() : this.#joined()
    this.#text = ''
    this.#bytes = EMPTY
    this.#start = 0
    this.#end = 0
    return taken
  }

  #run(): Buffer {
    const bytes = this.#bytes
    return this.#start === 0 && this.#end === bytes.length ? bytes : bytes.subarray(this.#start, this.#end)
  }

  #joined(): string {
    this.#endRun()
    return this.#text
  }

  #endRun(): void {
    if (this.#end > this.#start) this.#text += this.#bytes.toString('latin1', this.#start, this.#end)
    this.#start = this.#end
  }
}
