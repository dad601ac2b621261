import { onTestFinished, vi } from 'vitest'
import { Tracing } from '../../../src/telemetry/tracing/tracing.ts'

/** However busy the machine is, services of this test that stop have the time to send all spans that they have. */
export function closeTracesPatiently(): void {
  const { close } = Tracing.prototype
  const spied = vi.spyOn(Tracing.prototype, 'close').mockImplementation(function (this: Tracing) {
    return close.call(this, 60_000)
  })
  onTestFinished(() => spied.mockRestore())
}
