import type { Clock } from '../../time/clock.ts'
import { type BackendSlots, MODEL, MODEL_SLOTS, type NamedBackend, SLOT } from './backend-slots.ts'
import { CoolingModels, modelAt } from './cooling-models.ts'
import { COOLING_REASONS, type CoolingReason, CoolingRecords, LONGEST_WISH_MS, nextProbe } from './cooling-record.ts'

/** After so many calls in a row without a proper answer, a backend cools. */
const FAILURES = 3
/** Beyond this, the count stays. */
const MAX_FAILURES = 1_000_000

/** One call to a backend, as far as its health is concerned. */
export interface BackendAttempt {
  readonly slot: number
  /** The model that the backend was asked for. */
  readonly model: string | undefined
  /** Whether the backend is called with a credential of our own. A refusal of the client's credential says nothing to other clients. */
  readonly hasCredential: boolean
  /** False if the request has nothing else to go to, neither another backend nor another model of this one: then nothing cools. */
  readonly canCool: boolean
  /** Whether the request has no other backend to go to. A backend that is alone never cools, but a model of it may if there is another one. */
  readonly isAlone: boolean
  readonly startedAtMs: number
  /** The number of the probe that this call is, if it is one. */
  probe: number
}

/**
 * - `open`: takes requests.
 * - `recovering`: past its deadline, but nothing has succeeded since. It takes one request at a time, while there are others to go to.
 * - `model_recovering`: the same, but only the model was refused. A refusal comes at once, so with nowhere else to go nothing is held back.
 * - `cooling`: before its deadline.
 */
export type Standing = 'open' | 'model_recovering' | 'recovering' | 'cooling'

/** Bits of what a call has changed. All workers share one state, so exactly one call of all changes it. */
export const HEALTH = { cooled: 1, modelCooled: 2, recovered: 4, modelRecovered: 8 } as const

/** What people are shown about a backend. */
export interface BackendState extends CoolingState {
  readonly name: string
  readonly failuresInARow: number
  readonly connections: number
  /** Requests that wait for a connection. */
  readonly queue: number
  /** The latest failure, even if the backend has recovered since. Refusals count if the credential was ours. */
  readonly lastFailure: { readonly reason: CoolingReason; readonly atMs: number } | undefined
  /** Models that cool, or that have not succeeded since. */
  readonly models: readonly ModelState[]
}

export interface CoolingState {
  readonly state: 'healthy' | 'cooling' | 'recovering'
  readonly reason: CoolingReason | undefined
  /** When it began to cool, on the clock of the process, like all times here. */
  readonly sinceMs: number | undefined
  readonly coolingUntilMs: number | undefined
  readonly isProbed: boolean
}

interface ModelState extends CoolingState {
  /** The beginning of its name. */
  readonly model: string
}

interface BackendHealthParts {
  readonly slots: BackendSlots
  readonly clock: Pick<Clock, 'nowMs'>
  /** The supervising thread is 0. */
  readonly worker: number
  readonly hashKey: readonly [number, number]
}

/**
 * Which backends and models cool, the same for all workers. Calls without a proper answer cool the backend after three in a row. A refusal (429, 401, 402,
 * 403) shows that the backend is up; it cools one model, at once, and only if the credential is ours.
 */
export class BackendHealth {
  readonly #slots: BackendSlots
  readonly #records: CoolingRecords
  readonly #clock: Pick<Clock, 'nowMs'>
  readonly #models: CoolingModels
  readonly #owner: number
  #lastProbe = 0

  constructor({ slots, clock, worker, hashKey }: BackendHealthParts) {
    this.#slots = slots
    this.#records = new CoolingRecords(slots.words, slots.floats)
    this.#clock = clock
    this.#models = new CoolingModels(slots, this.#records, hashKey)
    this.#owner = worker + 1
  }

  /** For a request that has no other backend, only the model counts. */
  standing(slot: number, model: string | undefined, isAlone = false): Standing {
    if (!this.#slots.isTroubled(slot)) return 'open'
    this.#models.identify(model)
    const nowMs = this.#clock.nowMs()
    const at = this.#slots.lock(slot)
    if (at === undefined) return 'open'
    const backend = at + SLOT.cooling
    const ofModel = this.#models.find(at)
    const hasCooled = !isAlone && this.#records.hasCooled(backend)
    const isCooling =
      (hasCooled && this.#records.deadlineMs(backend) > nowMs) ||
      (ofModel >= 0 && this.#records.deadlineMs(ofModel + MODEL.cooling) > nowMs)
    this.#slots.unlock(at)
    if (isCooling) return 'cooling'
    if (hasCooled) return 'recovering'
    return ofModel < 0 ? 'open' : 'model_recovering'
  }

  /** Returns the later deadline of the backend and the model, or 0 if neither cools. It may have passed. `isAlone`: as in `standing`. */
  coolingUntil(slot: number, model: string | undefined, isAlone = false): number {
    if (!this.#slots.isTroubled(slot)) return 0
    this.#models.identify(model)
    const at = this.#slots.lock(slot)
    if (at === undefined) return 0
    const ofModel = this.#models.find(at)
    const ofModelMs = ofModel < 0 ? 0 : this.#records.deadlineMs(ofModel + MODEL.cooling)
    const untilMs = Math.max(isAlone ? 0 : this.#records.deadlineMs(at + SLOT.cooling), ofModelMs)
    this.#slots.unlock(at)
    return untilMs
  }

  /** The backend has begun to answer. What it sends says nothing against it. Returns bits of `HEALTH`. */
  noteSuccess(attempt: BackendAttempt): number {
    this.#models.noteAnswered(attempt.slot, attempt.model)
    if (!this.#slots.isTroubled(attempt.slot)) return 0
    this.#models.identify(attempt.model)
    const at = this.#slots.lock(attempt.slot)
    if (at === undefined) return 0
    let changes = this.#noteAnswer(at, attempt)
    const model = this.#models.find(at)
    if (model >= 0 && this.#records.isLater(model + MODEL.cooling, attempt.startedAtMs)) {
      this.#records.clear(model + MODEL.cooling)
      changes |= HEALTH.modelRecovered
    }
    this.#leave(at)
    return changes
  }

  /** `retryAfterMs` is how long the backend asks to be left alone, if it does. Returns bits of `HEALTH`. */
  noteFailure(attempt: BackendAttempt, reason: CoolingReason, retryAfterMs: number | undefined): number {
    const isRefusal = typeof reason === 'number'
    if (isRefusal && !attempt.hasCredential && !this.#slots.isTroubled(attempt.slot)) return 0
    this.#models.identifyWithText(attempt.model)
    const wasAnswered = this.#models.wasAnswered(attempt.slot, attempt.model)
    const nowMs = this.#clock.nowMs()
    const at = this.#slots.lock(attempt.slot)
    if (at === undefined) return 0
    if (!isRefusal || attempt.hasCredential) this.#noteLastFailure(at, reason, nowMs)
    let changes: number
    if (isRefusal) {
      changes = this.#noteAnswer(at, attempt)
      const model = attempt.hasCredential && attempt.canCool ? this.#models.findOrAdd(at, wasAnswered, nowMs) : -1
      if (model >= 0 && !this.#records.hasCooled(model + MODEL.cooling)) changes |= HEALTH.modelCooled
      if (model >= 0) this.#records.cool(model + MODEL.cooling, reason, retryAfterMs, attempt.startedAtMs, nowMs)
    } else changes = this.#noteOutage(at, attempt, reason, retryAfterMs, nowMs)
    this.#leave(at)
    return changes
  }

  /** Makes the call the probe of a backend or model that has cooled. Returns false if another one is. */
  tryProbe(attempt: BackendAttempt): boolean {
    this.#models.identify(attempt.model)
    const nowMs = this.#clock.nowMs()
    const at = this.#slots.lock(attempt.slot)
    if (at === undefined) return true
    const backend = !attempt.isAlone && this.#records.hasCooled(at + SLOT.cooling) ? at + SLOT.cooling : -1
    const found = this.#models.find(at)
    const model = found < 0 ? -1 : found + MODEL.cooling
    const isFree = (backend < 0 || this.#records.canProbe(backend, nowMs)) && (model < 0 || this.#records.canProbe(model, nowMs))
    if (isFree && (backend >= 0 || model >= 0)) {
      attempt.probe = this.#lastProbe = nextProbe(this.#owner, this.#lastProbe)
      if (backend >= 0) this.#records.beginProbe(backend, attempt.probe, nowMs)
      if (model >= 0) this.#records.beginProbe(model, attempt.probe, nowMs)
    }
    this.#slots.unlock(at)
    return isFree
  }

  /** To be called when a call begins or ends to wait for the rest of its request, which the client sends. */
  noteUpload(attempt: BackendAttempt, isWaiting: boolean): void {
    if (attempt.probe === 0) return
    const nowMs = this.#clock.nowMs()
    this.#forProbe(attempt, (record) => this.#records.noteProbe(record, attempt.probe, isWaiting, nowMs))
  }

  /** To be called when the call has ended, whatever its result. */
  endProbe(attempt: BackendAttempt): void {
    if (attempt.probe === 0) return
    this.#forProbe(attempt, (record) => this.#records.endProbe(record, attempt.probe))
    attempt.probe = 0
  }

  /** Looks at the records of the backend and the model that the call may be the probe of. */
  #forProbe(attempt: BackendAttempt, look: (record: number) => void): void {
    this.#models.identify(attempt.model)
    const at = this.#slots.lock(attempt.slot)
    if (at === undefined) return
    look(at + SLOT.cooling)
    const model = this.#models.find(at)
    if (model >= 0) look(model + MODEL.cooling)
    this.#slots.unlock(at)
  }

  /** For metrics, status and pages. A backend that no worker has claimed yet is healthy. */
  statesOf(backends: readonly NamedBackend[]): BackendState[] {
    return backends.map((backend) => {
      const slot = this.#slots.slotOf(backend)
      const words = slot === undefined ? undefined : this.#slots.copyOf(slot)
      if (slot === undefined || words === undefined)
        return { name: backend.name, ...HEALTHY, failuresInARow: 0, connections: 0, queue: 0, lastFailure: undefined, models: [] }
      const places = this.#slots.placesOf(slot, 0)
      return { name: backend.name, ...this.#stateIn(words), connections: places.taken, queue: places.waitingInAll }
    })
  }

  /**
   * Has the backend and all of its models tried again at once, instead of after their deadlines. Until one of them has answered, it still takes one request
   * at a time. Returns false if nothing of it cools.
   */
  tryNow(backend: NamedBackend): boolean {
    const slot = this.#slots.slotOf(backend)
    const nowMs = this.#clock.nowMs()
    const at = slot === undefined ? undefined : this.#slots.lock(slot)
    if (at === undefined) return false
    let hasCooled = false
    for (let i = -1; i < MODEL_SLOTS; i++) {
      const record = i < 0 ? at + SLOT.cooling : modelAt(at, i) + MODEL.cooling
      if (!this.#records.hasCooled(record)) continue
      hasCooled = true
      this.#records.endWait(record, nowMs)
    }
    this.#slots.floats[(at + SLOT.wishedUntilMs) / 2] = 0
    this.#slots.unlock(at)
    return hasCooled
  }

  /**
   * For explanations: how the backend is for requests of this model, the worse of the two if both have cooled. For a request that has no other backend, only
   * the model counts.
   */
  stateFor(backend: NamedBackend, model: string | undefined, isAlone: boolean): CoolingState {
    const slot = this.#slots.slotOf(backend)
    const words = slot === undefined ? undefined : this.#slots.copyOf(slot)
    if (words === undefined) return HEALTHY
    this.#models.identify(model)
    const records = new CoolingRecords(words, new Float64Array(words.buffer))
    const nowMs = this.#clock.nowMs()
    const ofModel = this.#models.findIn(words, records, 0)
    const own = isAlone ? HEALTHY : coolingStateOf(records, SLOT.cooling, nowMs)
    if (ofModel < 0) return own
    const ofModelState = coolingStateOf(records, ofModel + MODEL.cooling, nowMs)
    return own.state === 'healthy' || (ofModelState.coolingUntilMs ?? 0) > (own.coolingUntilMs ?? 0) ? ofModelState : own
  }

  #stateIn(words: Int32Array): Omit<BackendState, 'name' | 'connections' | 'queue'> {
    const floats = new Float64Array(words.buffer)
    const records = new CoolingRecords(words, floats)
    const failedBy = COOLING_REASONS[words[SLOT.failedBy]! - 1]
    const nowMs = this.#clock.nowMs()
    const models = Array.from({ length: MODEL_SLOTS }, (_, i) => modelAt(0, i))
    return {
      ...coolingStateOf(records, SLOT.cooling, nowMs),
      failuresInARow: words[SLOT.failures]!,
      lastFailure: failedBy && { reason: failedBy, atMs: floats[SLOT.failedAtMs / 2]! },
      models: models
        .filter((model) => records.hasCooled(model + MODEL.cooling))
        .map((model) => ({ model: textIn(words, model), ...coolingStateOf(records, model + MODEL.cooling, nowMs) })),
    }
  }

  /** An answer below 500, even a refusal, ends the row of failures. Once the backend has cooled, the answer must be to a later call. */
  #noteAnswer(at: number, { startedAtMs }: BackendAttempt): number {
    const hadCooled = this.#records.hasCooled(at + SLOT.cooling)
    if (hadCooled && !this.#records.isLater(at + SLOT.cooling, startedAtMs)) return 0
    this.#records.clear(at + SLOT.cooling)
    this.#slots.words[at + SLOT.failures] = 0
    this.#slots.floats[(at + SLOT.wishedUntilMs) / 2] = 0
    return hadCooled ? HEALTH.recovered : 0
  }

  #noteLastFailure(at: number, reason: CoolingReason, nowMs: number): void {
    this.#slots.floats[(at + SLOT.failedAtMs) / 2] = nowMs
    this.#slots.words[at + SLOT.failedBy] = COOLING_REASONS.indexOf(reason) + 1
  }

  #noteOutage(at: number, attempt: BackendAttempt, reason: CoolingReason, wishMs: number | undefined, nowMs: number): number {
    const { words, floats } = this.#slots
    const failures = Math.min(words[at + SLOT.failures]! + 1, MAX_FAILURES)
    words[at + SLOT.failures] = failures
    const wish = (at + SLOT.wishedUntilMs) / 2
    if (wishMs !== undefined) floats[wish] = Math.max(floats[wish]!, nowMs + Math.min(wishMs, LONGEST_WISH_MS))
    if (failures < FAILURES || !attempt.canCool || attempt.isAlone) return 0
    const hadCooled = this.#records.hasCooled(at + SLOT.cooling)
    this.#records.cool(at + SLOT.cooling, reason, wishMs, attempt.startedAtMs, nowMs)
    this.#records.extend(at + SLOT.cooling, floats[wish]!)
    return hadCooled ? 0 : HEALTH.cooled
  }

  #leave(at: number): void {
    const { words } = this.#slots
    let isTroubled = words[at + SLOT.failures]! > 0 || this.#records.hasCooled(at + SLOT.cooling)
    for (let i = 0; i < MODEL_SLOTS && !isTroubled; i++) isTroubled = this.#records.hasCooled(modelAt(at, i) + MODEL.cooling)
    Atomics.store(words, at + SLOT.isTroubled, isTroubled ? 1 : 0)
    this.#slots.unlock(at)
  }
}

const HEALTHY: CoolingState = { state: 'healthy', reason: undefined, sinceMs: undefined, coolingUntilMs: undefined, isProbed: false }

function coolingStateOf(records: CoolingRecords, at: number, nowMs: number): CoolingState {
  if (!records.hasCooled(at)) return HEALTHY
  const deadlineMs = records.deadlineMs(at)
  const isCooling = deadlineMs > nowMs
  return {
    state: isCooling ? 'cooling' : 'recovering',
    reason: records.reason(at),
    sinceMs: records.sinceMs(at),
    coolingUntilMs: isCooling ? deadlineMs : undefined,
    isProbed: records.isProbed(at),
  }
}

function textIn(words: Int32Array, model: number): string {
  return Buffer.from(words.buffer, (model + MODEL.text) * 4, words[model + MODEL.textLength]).toString('utf8')
}
