export interface PortNumbers {
  readonly port: number
  readonly adminPort: number | undefined
}

/** The start of the first workers, which comes to one end or the other. */
export class FirstStart {
  /** All workers are up, or one has failed: there is no more to wait for. */
  readonly up: Promise<void>
  readonly listening: Promise<PortNumbers>
  noteUp!: () => void
  succeed!: (numbers: PortNumbers) => void
  fail!: (error: Error) => void

  constructor() {
    this.up = new Promise((resolve) => {
      this.noteUp = resolve
    })
    this.listening = new Promise((resolve, reject) => {
      this.succeed = resolve
      this.fail = (error) => {
        this.noteUp()
        reject(error)
      }
    })
    this.listening.catch(() => {}) // a worker may die before anybody waits
  }
}
