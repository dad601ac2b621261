export interface PortNumbers {
  readonly port: number
  readonly adminPort: number | undefined
}

/** The start of the first workers, which comes to one end or the other. */
export class FirstStart {
  readonly listening: Promise<PortNumbers>
  succeed!: (numbers: PortNumbers) => void
  fail!: (error: Error) => void

  constructor() {
    this.listening = new Promise((resolve, reject) => {
      this.succeed = resolve
      this.fail = reject
    })
    this.listening.catch(() => {}) // a worker may die before anybody waits
  }
}
