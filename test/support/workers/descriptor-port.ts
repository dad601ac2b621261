import type { ListenAddress } from '../../../src/listen/listeners.ts'
import type { SharedSocket } from '../../../src/runtime/threads/worker-host.ts'

type Open = (address: ListenAddress, threads: number) => Promise<SharedSocket>

/** The built one, for it starts a program of its own. */
const { DescriptorPort } = (await import('../../../dist/runtime/threads/descriptor-port.js' as string)) as {
  DescriptorPort: { open: Open }
}

/** What these hold must not be collected as long as the process lives: the numbers that they would close belong to others by then. */
const OPENED: SharedSocket[] = []

export const openDescriptorPort: Open = async (address, threads) => {
  const opened = await DescriptorPort.open(address, threads)
  OPENED.push(opened)
  return opened
}
