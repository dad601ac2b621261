import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 5
/** Well below every test's timeout, which would only say that there was one. */
const PATIENCE_MS = 8000

/** Waits for something that must happen; the test's own timeout is the limit. What takes long is named, with its place, before that. */
export async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const calledFrom = new Error('called from')
  const timer = setTimeout(() => process.stderr.write(`still waiting ${describeWait(isTrue, calledFrom)}\n`), PATIENCE_MS)
  try {
    while (!(await isTrue())) await sleep(POLL_MS)
  } finally {
    clearTimeout(timer)
  }
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
  return `after ${PATIENCE_MS / 1000} s ${place?.trim() ?? ''} for:\n  ${condition}`
}
