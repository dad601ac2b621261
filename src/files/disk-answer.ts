/** A disk that hangs answers nothing, not even an error. After this long it is taken for one. */
export const DISK_PATIENCE_MS = 2000

export class DiskHangs extends Error {
  constructor(patienceMs = DISK_PATIENCE_MS) {
    super(`the disk did not respond within ${patienceMs / 1000} s`)
  }
}

/** What the disk answers, or an error when it does not in time. The work itself cannot be called off. */
export async function diskAnswer<Answer>(work: Promise<Answer>, patienceMs = DISK_PATIENCE_MS): Promise<Answer> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new DiskHangs(patienceMs)), patienceMs).unref()
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
