import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 5
/** What takes longer is looked at less often: a look may cost a request. */
const MAX_POLL_MS = 20
/** Only ends what hangs, before the test's own limit would, which could not say what it was waiting for. */
const LIMIT_MS = Number(process.env['EDGE_TEST_UNTIL_MS'] ?? 60_000)

/** Waits for something that must happen, however long a busy machine takes for it. What never happens is named, with its place. */
export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const calledFrom = new Error('called from')
  const startedMs = realMs()
  while (!(await isTrue())) {
    const waitedMs = realMs() - startedMs
    if (waitedMs > LIMIT_MS) throw new Error(`waited in vain ${describeWait(isTrue, calledFrom)}`)
    await sleep(Math.min(MAX_POLL_MS, POLL_MS + waitedMs / 50))
  }
}

/** Of a clock that no test holds. */
function realMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Waits until a number has not changed for a while. */
export async function untilStill(value: () => number): Promise<void> {
  let [last, unchanged] = [value(), 0]
  await until(() => {
    unchanged = value() === last ? unchanged + 1 : 0
    last = value()
    return unchanged >= 30
  })
}

/** The condition as it is written, and the first line outside this file. */
function describeWait(isTrue: () => unknown, { stack = '' }: Error): string {
  const place = stack.split('\n').find((line, i) => i > 0 && !line.includes('until.ts'))
  const condition = isTrue.toString().replaceAll(/\(0, __vi_import_\d+__\.(\w+)\)|__vi_import_\d+__\./g, '$1')
  return `for ${LIMIT_MS / 1000} s ${place?.trim() ?? ''}:\n  ${condition}`
}
