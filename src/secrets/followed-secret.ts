import { join } from 'node:path'
import { WatchedFile } from '../files/watched-file.ts'
import { MAX_SECRET_FILE_BYTES, readSecretText, variableOf } from './secret-value.ts'

/** The two places of secrets. */
export interface SecretPlaces {
  /** Secrets by name, of the variables `EDGE_SECRET_NAME`. */
  readonly secretVariables: ReadonlyMap<string, string>
  /** The directory in which the file NAME is looked for. */
  readonly secretsDir: string | undefined
}

/** What changed with a reading. */
export interface SecretChange {
  readonly hasNewValue: boolean
  /** Whether there is a problem that was not there before, or none any more. */
  readonly hasNewProblem: boolean
}

const NOT_READ = 'has not been read yet: does the disk of EDGE_SECRETS_DIR respond?'
/** The file or the directory is not there. */
const ABSENT = new Set(['ENOENT', 'ENOTDIR'])

/** One secret: its variable, or its file, which is read again when it changes. Keeps the last good value. */
export class FollowedSecret {
  readonly name: string
  readonly #places: SecretPlaces
  readonly #onReading: (secret: FollowedSecret, reading: SecretChange) => void
  readonly #file: WatchedFile | undefined
  #value: string | undefined
  #problem: string | undefined

  /** `onReading` is called for each change. */
  constructor(name: string, places: SecretPlaces, onReading: (secret: FollowedSecret, reading: SecretChange) => void) {
    this.name = name
    this.#places = places
    this.#onReading = onReading
    this.#value = places.secretVariables.get(name)
    const path = this.#path
    if (path === undefined) {
      this.#problem = this.#value === undefined ? this.#missing : undefined
      return
    }
    this.#problem = NOT_READ
    this.#file = new WatchedFile(path, MAX_SECRET_FILE_BYTES, {
      onContent: (bytes) => this.#noteFile(bytes),
      onProblem: (error) => this.#noteNoFile(error),
    })
  }

  /** The last good value. */
  get value(): string | undefined {
    return this.#value
  }

  /** Why the last reading failed, to complete "the secret NAME …", with the way out; undefined if it did not. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** The place of the value, as operators know it. */
  get place(): { readonly variable: string } | { readonly path: string } {
    return this.#isVariable ? { variable: variableOf(this.name) } : { path: this.#path! }
  }

  /** Resolves after the first reading. */
  async start(): Promise<void> {
    await this.#file?.start()
  }

  stop(): void {
    this.#file?.stop()
  }

  get #isVariable(): boolean {
    return this.#places.secretVariables.has(this.name)
  }

  get #path(): string | undefined {
    const { secretsDir } = this.#places
    return secretsDir === undefined ? undefined : join(secretsDir, this.name)
  }

  get #missing(): string {
    const asVariable = `set ${variableOf(this.name)} and restart`
    return this.#path === undefined
      ? `is missing: ${asVariable}, or set EDGE_SECRETS_DIR to a directory that has the file ${this.name}`
      : `is missing: create the file ${this.#path}, or ${asVariable}`
  }

  get #doubled(): string {
    return `is there twice: remove the file ${this.#path}, or unset ${variableOf(this.name)} and restart`
  }

  #noteFile(bytes: Buffer): void {
    if (this.#isVariable) return this.#note(this.#value, this.#doubled)
    const reading = readSecretText(bytes)
    if ('value' in reading) this.#note(reading.value, undefined)
    else this.#note(this.#value, `cannot be used: the file ${this.#path} ${reading.problem}`)
  }

  #noteNoFile({ code, message }: NodeJS.ErrnoException): void {
    const isAbsent = code !== undefined && ABSENT.has(code)
    if (this.#isVariable) this.#note(this.#value, isAbsent ? undefined : this.#doubled)
    else this.#note(this.#value, isAbsent ? this.#missing : `cannot be read from ${this.#path}: ${message}`)
  }

  #note(value: string | undefined, problem: string | undefined): void {
    const reading = { hasNewValue: value !== this.#value, hasNewProblem: problem !== this.#problem }
    this.#value = value
    this.#problem = problem
    if (reading.hasNewValue || reading.hasNewProblem) this.#onReading(this, reading)
  }
}
