import { onTestFinished, vi } from 'vitest'
import { Tracing } from '../../../src/telemetry/tracing/tracing.ts'

// Not that of a test that has asked for it already.
const { close } = Tracing.prototype

/** However busy the machine is, services of this test that stop have the time to send all spans that they have. */
export function closeTracesPatiently(): void {
  const spied = vi.spyOn(Tracing.prototype, 'close').mockImplementation(function (this: Tracing) {
    return close.call(this, 60_000)
  })
  onTestFinished(() => spied.mockRestore())
}
