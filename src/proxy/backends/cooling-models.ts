import { HalfSipHash, SubjectWords } from '../../store/subject.ts'
import { BACKEND_SLOTS, type BackendSlots, MODEL, MODEL_SLOTS, MODEL_TEXT_BYTES, MODEL_WORDS, SLOT } from './backend-slots.ts'
import type { CoolingRecords } from './cooling-record.ts'

/** Number of models of one backend that a worker remembers as answered. */
const MAX_ANSWERED = 64
/** Of longer names, only the beginning and the length count, so that nobody makes hashing dear. */
const MAX_NAME_LENGTH = 256

/**
 * The models of backends that cool: a fixed number for each backend. Anybody can invent models that a provider refuses, so a model that a worker has never
 * seen answered takes no place from one that was, before its deadline; and if there is no place, it does not cool.
 */
export class CoolingModels {
  readonly #slots: BackendSlots
  readonly #records: CoolingRecords
  readonly #hash: HalfSipHash
  readonly #subject = new SubjectWords()
  readonly #encoder = new TextEncoder()
  readonly #text = new Int32Array(MODEL_TEXT_BYTES / 4)
  readonly #textBytes = new Uint8Array(this.#text.buffer)
  readonly #answered = new Map<number, Set<string>>()
  #textLength = 0

  /** Models are told apart by a keyed hash. Callers do not know the key, so they cannot invent a model that counts as another. */
  constructor(slots: BackendSlots, records: CoolingRecords, hashKey: readonly [number, number]) {
    this.#slots = slots
    this.#records = records
    this.#hash = new HalfSipHash(hashKey)
  }

  /** Says which model the following calls are about. Requests without a model count as one model. */
  identify(model: string | undefined): void {
    const name = model?.slice(0, MAX_NAME_LENGTH) ?? ''
    this.#subject.clear()
    this.#subject.addWord(model?.length ?? -1)
    this.#subject.addText(name)
    this.#hash.digest(this.#subject.words, this.#subject.length)
  }

  /** The same, for a model that may have to be added: nothing may be allocated while the slot is locked. */
  identifyWithText(model: string | undefined): void {
    this.identify(model)
    this.#textLength = this.#encoder.encodeInto(model ?? '', this.#textBytes).written
  }

  /** Returns where the model is among those of the slot that have cooled, or -1. To be called with the lock of the slot, like the following. */
  find(at: number): number {
    return this.findIn(this.#slots.words, this.#records, at)
  }

  /** The same in a copy of a slot's words, which needs no lock. */
  findIn(words: Int32Array, records: CoolingRecords, at: number): number {
    const { low, high } = this.#hash
    for (let i = 0; i < MODEL_SLOTS; i++) {
      const model = modelAt(at, i)
      if (words[model + MODEL.low] === low && words[model + MODEL.high] === high && records.hasCooled(model + MODEL.cooling)) return model
    }
    return -1
  }

  /** Returns -1 if there is no room for the model. */
  findOrAdd(at: number, wasAnswered: boolean, nowMs: number): number {
    const { words } = this.#slots
    let model = this.find(at)
    if (model < 0) {
      model = this.#roomIn(at, wasAnswered, nowMs)
      if (model < 0) return -1
      words.fill(0, model, model + MODEL_WORDS)
      words[model + MODEL.low] = this.#hash.low
      words[model + MODEL.high] = this.#hash.high
      words[model + MODEL.textLength] = this.#textLength
      words.set(this.#text, model + MODEL.text)
    }
    if (wasAnswered) words[model + MODEL.wasAnswered] = 1
    return model
  }

  /** Only answers are remembered, so invented models make this forget nothing. */
  noteAnswered(slot: number, model = ''): void {
    const models = this.#answered.get(slot)
    if (models?.has(model) || model.length > MAX_NAME_LENGTH) return
    if (models === undefined) {
      dropOldest(this.#answered, BACKEND_SLOTS)
      this.#answered.set(slot, new Set([model]))
    } else {
      dropOldest(models, MAX_ANSWERED)
      models.add(model)
    }
  }

  wasAnswered(slot: number, model = ''): boolean {
    return this.#answered.get(slot)?.has(model) === true
  }

  /** Returns a free place, or else the one whose deadline is over or comes first, or -1. */
  #roomIn(at: number, wasAnswered: boolean, nowMs: number): number {
    let found = -1
    let firstMs = Number.POSITIVE_INFINITY
    for (let i = 0; i < MODEL_SLOTS; i++) {
      const model = modelAt(at, i)
      if (!this.#hasCooled(model)) return model
      const deadlineMs = this.#records.deadlineMs(model + MODEL.cooling)
      const isKept = this.#slots.words[model + MODEL.wasAnswered] === 1 && !wasAnswered && deadlineMs > nowMs
      if (isKept || deadlineMs >= firstMs) continue
      found = model
      firstMs = deadlineMs
    }
    return found
  }

  #hasCooled(model: number): boolean {
    return this.#records.hasCooled(model + MODEL.cooling)
  }
}

/** Returns the first word of a model in a slot. */
export function modelAt(at: number, index: number): number {
  return at + SLOT.models + index * MODEL_WORDS
}

function dropOldest(kept: Pick<Map<unknown, unknown>, 'size' | 'keys'> & { delete(key: unknown): unknown }, max: number): void {
  if (kept.size >= max) kept.delete(kept.keys().next().value)
}
