import { type Owner, thisTest } from './service/running.ts'

/** Timers of one loop come in order: what is started on it later, and ends before this is up, did not last as long. */
export class RunningTime {
  isUp = false

  constructor(ms: number, owner: Owner = thisTest) {
    const timer = setTimeout(() => {
      this.isUp = true
    }, ms)
    owner.onTestFinished(() => clearTimeout(timer))
  }
}
