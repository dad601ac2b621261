import { inSlices } from '../../time/slices.ts'
import type { IssuedKey } from './issued-key.ts'
import type { KeyJournal } from './key-journal.ts'
import type { KeyTable } from './key-table.ts'

/** The next state of a key, and the one that it replaces. */
export interface KeyPut {
  readonly key: IssuedKey
  readonly former: IssuedKey | undefined
}

/** The moment at which a put counts; or why it does not: it was changed elsewhere, it was revoked once, or there are too many. */
export type PutOutcome = number | 'changed' | 'revoked' | 'full'

/** Where keys are kept beside the memory of this process. */
export interface KeyStorage {
  /** Whether keys outlive this process. */
  readonly isDurable: boolean
  /** Reads the keys from before the start. Resolves when they are in the table, or when waiting any longer makes no sense. */
  start(): Promise<void>
  /** Resolves when the puts are durable, if they can be. If it rejects, nothing has changed, or the ApiError says that this is unknown. */
  store(puts: readonly KeyPut[]): Promise<readonly PutOutcome[]>
  /** Whether the disk has not responded for long. */
  isSlow(): boolean
  /** Resolves when the file no longer says that its end was cut off. */
  acknowledgeLoss(): Promise<void>
  /** Why a change would only wait, as a sentence; undefined if it would not. */
  problem(): string | undefined
  close(): Promise<void>
}

const FORGET_INTERVAL_MS = 3_600_000

/** The keys of a single instance: in memory, and in a journal if there is one. */
export class FileKeyStorage implements KeyStorage {
  readonly #table: KeyTable
  readonly #journal: KeyJournal | undefined
  readonly #wallMs: () => number
  #timer: NodeJS.Timeout | undefined

  /** The journal was read into the table. */
  constructor(table: KeyTable, journal: KeyJournal | undefined, wallMs: () => number) {
    this.#table = table
    this.#journal = journal
    this.#wallMs = wallMs
  }

  get isDurable(): boolean {
    return this.#journal !== undefined
  }

  async start(): Promise<void> {
    await this.#forgetOver()
    this.#table.noteLoaded()
    this.#timer = setInterval(() => void this.#forgetOver(), FORGET_INTERVAL_MS).unref()
  }

  async store(puts: readonly KeyPut[]): Promise<readonly PutOutcome[]> {
    await this.#journal?.append(
      puts.map(({ key }) => key),
      this.#table,
    )
    return puts.map(({ key }) => key.momentMs)
  }

  #forgetOver(): Promise<void> {
    return inSlices(this.#table.forgetOver(this.#wallMs()))
  }

  isSlow(): boolean {
    return this.#journal?.isSlow(performance.now()) ?? false
  }

  async acknowledgeLoss(): Promise<void> {
    await this.#journal?.acknowledgeLoss()
  }

  problem(): string | undefined {
    return this.isSlow() ? 'the disk with EDGE_KEYS_FILE does not respond; other changes wait for it, and may still be done' : undefined
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#journal?.close()
  }
}
