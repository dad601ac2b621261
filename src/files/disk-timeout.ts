/** A disk that hangs returns nothing, not even an error. After this long it is treated as one. */
export const DISK_TIMEOUT_MS = 2000

export class DiskTimeout extends Error {
  constructor(timeoutMs = DISK_TIMEOUT_MS) {
    super(`the disk did not respond within ${timeoutMs / 1000} s`)
  }
}

/** Waits for disk work; throws a DiskTimeout when it takes too long. The work itself cannot be cancelled. */
export async function withDiskTimeout<Result>(work: Promise<Result>, timeoutMs = DISK_TIMEOUT_MS): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new DiskTimeout(timeoutMs)), timeoutMs).unref()
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    clearTimeout(timer)
  }
}
