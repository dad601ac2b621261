import type { SharedPort } from '../../../src/runtime/threads/worker-host.ts'

type Open = (port: number, host: string | undefined, threads: number) => Promise<SharedPort>

/** The built one, for it starts a program of its own. */
const { DescriptorPort } = (await import('../../../dist/runtime/threads/descriptor-port.js' as string)) as {
  DescriptorPort: { open: Open }
}

/** What these hold must not be collected as long as the process lives: the numbers that they would close belong to others by then. */
const OPENED: SharedPort[] = []

export const openDescriptorPort: Open = async (port, host, threads) => {
  const opened = await DescriptorPort.open(port, host, threads)
  OPENED.push(opened)
  return opened
}
