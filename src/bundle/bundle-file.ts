import { WatchedFile } from '../files/watched-file.ts'
import { type BundleFormat, formatOf } from '../policy/schema/bundle.ts'
import type { BundleIntake } from './bundle-intake.ts'
import { BundleReport, type ReportParts } from './bundle-report.ts'
import { type BundleSource, MAX_BUNDLE_BYTES, type SourceStatus } from './bundle-source.ts'

const MAX_SIGNATURE_BYTES = 4096

/** Two files cannot be replaced at once, so a mismatch of a bundle and its signature is reported only after this time. */
const SIGNATURE_PATIENCE_MS = 1500

/** Offers a file's content to the intake, at startup and whenever the file or its signature (`FILE.sig`) changes. */
export class BundleFile implements BundleSource {
  readonly #format: BundleFormat
  readonly #intake: BundleIntake
  readonly #report: BundleReport
  readonly #file: WatchedFile
  readonly #signatureFile: WatchedFile | undefined
  readonly #patienceMs: number
  #bytes: Buffer | undefined
  #signature: string | undefined
  /** Whether the bundle was refused for its signature, so that the next signature may be right. */
  #lacksSignature = false
  #patience: NodeJS.Timeout | undefined
  /** Resolves when the last offer has ended. */
  #offered: Promise<void> = Promise.resolve()

  constructor(path: string, isSigned: boolean, intake: BundleIntake, parts: ReportParts, patienceMs = SIGNATURE_PATIENCE_MS) {
    this.#patienceMs = patienceMs
    this.#format = formatOf(path)
    this.#intake = intake
    this.#report = new BundleReport({ path }, parts)
    this.#file = new WatchedFile(path, MAX_BUNDLE_BYTES, {
      onContent: (bytes) => {
        this.#bytes = bytes
        return this.#offer()
      },
      onProblem: (error) => {
        // A bundle that has disappeared must not be accepted when its signature arrives.
        this.#lacksSignature = false
        clearTimeout(this.#patience)
        this.#report.unreadable(error)
      },
    })
    this.#signatureFile = isSigned ? this.#watchSignature(`${path}.sig`, parts) : undefined
  }

  get status(): SourceStatus {
    const { location, problem, refusal } = this.#report
    return { location, isCached: false, looks: this.#file.looks, problem, refusal, isDiskSlow: false }
  }

  async start(): Promise<void> {
    // Both files are read at the same time, and the bundle is offered once the signature is known.
    if (this.#signatureFile !== undefined) this.#offered = this.#signatureFile.start()
    await this.#file.start()
  }

  async reload(): Promise<void> {
    this.#lacksSignature = false // the bundle is offered anyway
    await this.#signatureFile?.reload()
    await this.#file.reload()
  }

  stop(): void {
    clearTimeout(this.#patience)
    this.#signatureFile?.stop()
    this.#file.stop()
  }

  #watchSignature(path: string, parts: ReportParts): WatchedFile {
    const report = new BundleReport({ path }, parts)
    return new WatchedFile(path, MAX_SIGNATURE_BYTES, {
      onContent: (bytes) => {
        this.#signature = bytes.toString('latin1')
        // A signature that arrives before its bundle says nothing about the active one.
        return this.#lacksSignature ? this.#offer() : undefined
      },
      onProblem: (error) => {
        this.#signature = undefined
        // A missing signature is reported with the bundle.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') report.unreadable(error)
      },
    })
  }

  /** Offers one bundle at a time; either file may have changed in the meantime. */
  #offer(isPatient = true): Promise<void> {
    clearTimeout(this.#patience)
    const offered = this.#offered.then(() => this.#offerNow(isPatient))
    // The failure goes to the caller and must not keep the next bundle from being offered.
    this.#offered = offered.catch(() => {})
    return offered
  }

  async #offerNow(isPatient: boolean): Promise<void> {
    const taken = await this.#intake.offer({ bytes: this.#bytes!, format: this.#format, signature: this.#signature })
    this.#lacksSignature = taken.result === 'refused' && taken.lacksSignature === true
    if (this.#lacksSignature && isPatient) {
      clearTimeout(this.#patience)
      this.#patience = setTimeout(() => {
        this.#offer(false).catch((error: Error) => this.#report.unreadable(error))
      }, this.#patienceMs)
      this.#patience.unref()
    } else {
      this.#report.taken(taken)
    }
  }
}
