import type { TextSize } from '../text/text-size.ts'
import { type UsageInsertion, usageInsertion } from './ask-usage.ts'
import { type Closing, type Dialect, hasUsageOnly, isErrorEvent } from './dialects/dialect.ts'
import { defaultDialect, StreamDialects } from './dialects/dialect-of.ts'
import { UnreadEvents } from './dialects/unread-events.ts'
import { asObject, type JsonObject, parseJson } from './json.ts'
import { LargeEvent } from './large-event.ts'
import { PassedBytes } from './passed-bytes.ts'
import { canBeParsed, type EventData, hasOnlyFields, readEventData, SMALL_EVENT_BYTES, SseFraming } from './sse-framing.ts'
import type { BudgetEnd, StreamExcess, StreamFilterOptions, StreamMeter, StreamRule } from './stream-rules.ts'
import {
  chatUsageText,
  countTokens,
  estimatedTokens,
  hasUsage,
  NOT_COUNTED,
  newTally,
  readLargerUsage,
  type ShownCounts,
  shownCounts,
  type Tally,
  type TokenCounts,
} from './usage.ts'

/** A larger event is not held back: it passes while it is scanned. Pictures arrive in such events, and what repeats a whole response. */
export const MAX_EVENT_BYTES = 1024 * 1024

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
  readonly tally: Tally = newTally()
  readonly #dialects = new StreamDialects()
  /** The event that passes while it is scanned. */
  #large: LargeEvent | undefined
  readonly #unread = new UnreadEvents()
  #hasData = false
  #hasError = false
  /** Prompt and model as they were when the meter was last told: they change what the same completion costs. */
  #noticedPrompt: number | undefined = Number.NaN
  #noticedBeside = 0
  #noticedModel: string | undefined
  /** The budget that the meter last found to be used up. */
  #spent: BudgetEnd<Rule> | undefined
  /** Whether the stream has sent its end marker, so that no more text will follow. */
  hasEnded = false
  /** Whether text came after that end, and was not passed on. */
  hasOverrun = false
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
    if (this.#isOver()) return EMPTY
    this.#framing.push(chunk)
    while (!this.#isOver() && this.#framing.next()) this.#readPiece()
    return this.#out.take()
  }

  end(): Buffer | string {
    if (!this.#isOver() && this.#framing.finish()) this.#readPiece()
    return this.#out.take()
  }

  /** Whether no more text passes. */
  #isStopped(): boolean {
    return this.hasEnded && this.#options.stopsAtEnd === true
  }

  /** Whether nothing more passes. */
  #isOver(): boolean {
    return this.cut !== undefined || this.hasOverrun
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
    const isCounted = this.hasProviderCount && this.tally.characters === this.tally.countedCharacters
    return this.hasEnded || isCounted || this.#dialects.current?.hasFinished === true
  }

  /** Whether the bytes passed on so far end with a complete event. */
  get isBetweenEvents(): boolean {
    return !this.#framing.isInsideOversize
  }

  /** Cost of the response so far. */
  get counts(): TokenCounts {
    return countTokens(this.tally, this.#options.promptEstimate)
  }

  /** Cost of the response so far with what was not understood, by its size, unless the provider has counted all of it. */
  get charged(): TokenCounts {
    const { characters, completionTokens, countedCharacters } = this.tally
    if (completionTokens !== undefined && characters === countedCharacters) return this.counts
    const unread = this.isUnderstood ? this.#unread.excess : this.isOpaque ? this.#unread.all : this.#unread.unknown.bytes
    return countTokens({ ...this.tally, characters: characters + unread }, this.#options.promptEstimate)
  }

  /** `counts` as clients see them, in the words of the response's API. */
  #shown(): ShownCounts {
    return shownCounts(this.tally, this.#options.promptEstimate)
  }

  /** Completion tokens by our own estimate, ignoring the provider's count. */
  get estimatedCompletionTokens(): number {
    return estimatedTokens(this.tally.characters)
  }

  /** Whether the provider sent its own count of the completion. */
  get hasProviderCount(): boolean {
    return this.tally.completionTokens !== undefined
  }

  get hasUsage(): boolean {
    return hasUsage(this.tally)
  }

  /** Whether the response had usage, or text that we know how to read. */
  get isUnderstood(): boolean {
    return this.hasUsage || this.tally.characters > 0
  }

  /** Whether the response may have been long, though nothing of it was understood: the API is not known, or there is much data and no text. */
  get isOpaque(): boolean {
    if (this.isUnderstood) return false
    return ((this.#hasData || this.#unread.unknown.bytes > 0) && this.#dialects.current === undefined) || this.#unread.isLongWithoutText
  }

  /** Whether the response was an error and nothing else. */
  get hasFailed(): boolean {
    return this.#hasError && !this.isUnderstood && !this.#unread.isMuch
  }

  #readPiece(): void {
    const { bytes, start, end, kind } = this.#framing
    if (kind === 'event') return this.#readEvent()
    if (kind === 'line_end') return this.#out.pass(bytes, start, end)
    this.#passLarge()
  }

  /** Passes a piece of an event that is scanned. The stream is cut behind it, because clients cannot use a part of it; within it only if it seems endless. */
  #passLarge(): void {
    const { bytes, start, end, kind } = this.#framing
    this.hasOverrun = this.#isStopped()
    if (this.hasOverrun) return
    this.#out.pass(bytes, start, end)
    this.#large ??= new LargeEvent()
    this.#large.push(bytes, start, end)
    if (kind !== 'part' || this.#large.isEndless) this.#checkLarge(this.#large, kind !== 'part')
  }

  #checkLarge(large: LargeEvent, isEnded: boolean): void {
    const [characters, counted] = [this.tally.characters, this.tally.completionTokens ?? 0]
    if (isEnded) this.#readLarge(large)
    else this.tally.characters += large.takeSize()
    if (isEnded) this.#large = undefined
    const end = this.#check(this.tally.characters - characters)
    if (this.cut === undefined) return this.#cutIfSpent(counted)
    this.#addBlankLine()
    this.#addClosing(this.cut, end)
  }

  /** An event that cannot be scanned either, or is of no known API, may have text if it is not small, so its size counts. */
  #readLarge(large: LargeEvent): void {
    if (!large.hasData) return this.#unread.unknown.add(large.size)
    this.#hasData = true
    const scanned = large.end()
    const { completionTokens: counted = 0 } = this.tally
    if (scanned !== undefined) {
      this.tally.characters += scanned.characters
      this.#note(scanned.event, scanned.characters)
    }
    const unread =
      scanned === undefined
        ? this.#unread.unknown
        : this.#unreadSize(scanned.event, scanned.characters > 0 || this.#hasCounted(counted), large.size.bytes)
    const mayBeText = this.#framing.kind !== 'event' || large.size.bytes > SMALL_EVENT_BYTES
    if (unread === this.#unread.unknown && mayBeText) this.tally.characters += large.takeSize()
    else unread?.add(large.size)
  }

  #readEvent(): void {
    const piece = this.#framing
    const { bytes, start, end } = piece
    const data = readEventData(piece)
    if (data === undefined) {
      if (!hasOnlyFields(piece)) this.#unread.unknown.push(bytes, start, end)
      return this.#out.pass(bytes, start, end)
    }
    if (!canBeParsed(piece, data)) return this.#passLarge()
    const isEnd = data.text.startsWith('[DONE]') && data.text.trimEnd() === '[DONE]'
    if (isEnd) this.hasEnded = true
    const isSilent = isEnd || (saysNothing(data) && hasOnlyFields(piece))
    if (!isSilent) this.#hasData = true
    const text = data.text.charCodeAt(0) === OPEN_BRACE ? data.text : data.text.trimStart()
    const isObject = text.charCodeAt(0) === OPEN_BRACE
    const parsed = isObject ? parseJson(text) : undefined
    // Some servers write numbers that JSON does not have.
    if (isObject && parsed === undefined) return this.#passLarge()
    const event = asObject(parsed)
    if (event === undefined) {
      if (!isSilent) this.#unread.unknown.push(bytes, start, end)
      return this.#out.pass(bytes, start, end)
    }
    const { characters, completionTokens: counted = 0 } = this.tally
    if (!this.#passes(event)) return
    const isRead = isSilent || this.tally.characters > characters || this.#hasCounted(counted)
    this.#unreadSize(event, isRead, end - start)?.push(bytes, start, end)
    if (this.#options.hidesUsage === true && hasUsageOnly(event)) return
    const insertion = this.#addsUsage && Array.isArray(event['choices']) ? usageInsertion(bytes, data.spans, event['usage']) : undefined
    if (insertion === undefined) this.#out.pass(bytes, start, end)
    else this.#passWithUsage(bytes, start, end, insertion)
    this.#cutIfSpent(counted)
  }

  #hasCounted(before: number): boolean {
    return (this.tally.completionTokens ?? 0) > before
  }

  /** Returns where the size of the event that was noted last counts; undefined if its text or its count is known. */
  #unreadSize(event: JsonObject, isRead: boolean, bytes: number): TextSize | undefined {
    const size = isRead || this.#dialects.isRepeat ? undefined : this.#unread.sizeFor(event, this.#dialects.isOwn, bytes)
    // A count that came before it does not include it.
    if (size === this.#unread.unknown && this.#dialects.current === undefined) this.tally.countedCharacters = NOT_COUNTED
    return size
  }

  /** Counts an event. Returns false if the stream ends instead of passing it. */
  #passes(event: JsonObject): boolean {
    const before = this.tally.characters
    const isLate = this.#isStopped()
    const dialect = this.#note(event, 0)
    if (isLate && this.tally.characters > before) {
      this.tally.characters = before
      this.hasOverrun = true
      return false
    }
    const end = this.#check(this.tally.characters - before)
    if (this.cut === undefined) dialect?.remember(event)
    else this.#addClosing(this.cut, end)
    return this.cut === undefined
  }

  /** Has an event read by the API that it belongs to. `text` is the length of its text that is counted already. */
  #note(event: JsonObject, text: number): Dialect | undefined {
    const dialect = this.#dialects.of(event)
    const before = this.tally.characters - text
    // In events of any type: those that end speech or a picture are of no API that has text.
    readLargerUsage(event['usage'], this.tally)
    const isRead = dialect !== undefined && this.#dialects.isOwn
    const meaning = isRead ? dialect.read(event, this.tally) : isErrorEvent(event) ? 'error' : 'content'
    if (meaning === 'end') this.hasEnded = true
    if (meaning === 'error') this.#hasError = true
    if (this.tally.characters > before) this.#dialects.noteText(dialect)
    return dialect
  }

  /**
   * Checks each rule that has let enough tokens pass since its last check, and the meter. `characters` is the length of the new text. Returns the budget that
   * cuts the stream, if one does.
   */
  #check(characters: number): BudgetEnd<Rule> | undefined {
    this.#checkBounds()
    const { meter } = this.#options
    if (meter === undefined || this.cut !== undefined) return undefined
    const end = this.#measure(meter)
    this.#spent = end
    // Events without text are passed on: they are the last ones of a stream, or cost nothing, or the stream is cut behind them.
    if (end === undefined || characters === 0 || this.#options.isShadowed?.()) return undefined
    this.#cutAt(end)
    return end
  }

  #measure(meter: StreamMeter<Rule>): BudgetEnd<Rule> | undefined {
    const { promptTokens, besidePrompt, completionTokens = 0, model } = this.tally
    const output = Math.max(completionTokens, this.estimatedCompletionTokens)
    const isSamePrompt = promptTokens === this.#noticedPrompt && besidePrompt === this.#noticedBeside
    if (output < meter.noticeAt && isSamePrompt && model === this.#noticedModel) return undefined
    this.#noticedPrompt = promptTokens
    this.#noticedBeside = besidePrompt
    this.#noticedModel = model
    return meter.notice(this.counts)
  }

  /**
   * Cuts the stream behind an event without text that costs something by the provider's count, such as one with sound, or one that comes while the model
   * thinks; but not behind the last ones. `counted` is the provider's count before it.
   */
  #cutIfSpent(counted: number): void {
    const end = this.#spent
    if (end === undefined || (this.tally.completionTokens ?? 0) <= counted || this.hasFinished || this.#options.isShadowed?.()) return
    this.#cutAt(end)
    this.#addBlankLine()
    this.#addClosing(this.cut!, end)
  }

  #addBlankLine(): void {
    if (!this.#framing.isEnded) this.#out.add(BLANK_LINE)
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
    const dialect = this.#dialects.current ?? defaultDialect(this.#options.dialect)
    return Buffer.from(dialect.closing(how, this.#shown(), rule.llm!.streaming.includePartialUsage))
  }

  #passWithUsage(bytes: Buffer, start: number, end: number, { at, replaced, before }: UsageInsertion): void {
    this.#out.pass(bytes, start, at)
    this.#out.add(`${before}${chatUsageText(this.#shown())}`)
    this.#out.pass(bytes, at + replaced, end)
  }
}

/** Whether an event only keeps the connection open. */
function saysNothing({ text }: EventData): boolean {
  return text === '' || (text.length <= LONGEST_PING && PING.test(text))
}

const EMPTY = Buffer.alloc(0)
const BLANK_LINE = '\n\n'
const OPEN_BRACE = 0x7b
const LONGEST_PING = 64
const PING = /^\s*\{\s*"type"\s*:\s*"ping"\s*\}\s*$/

interface Watch<Rule> {
  readonly rule: Rule
  checkedAtTokens: number
  isExceeded: boolean
}
