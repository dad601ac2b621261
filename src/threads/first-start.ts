/** The start of the first workers: all of them come up, or there is no service. */
export class FirstStart {
  readonly up: Promise<void>
  isOver = false
  succeed!: () => void
  fail!: (error: Error) => void

  constructor() {
    this.up = new Promise((resolve, reject) => {
      this.succeed = () => {
        this.isOver = true
        resolve()
      }
      this.fail = reject
    })
    this.up.catch(() => {}) // a worker may die before anybody waits
  }
}
