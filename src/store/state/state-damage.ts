/** The file is not as it was saved. The message completes the sentence "it is no good: …". */
export class StateDamage extends Error {}

export const CUT_OFF = 'it is cut off'
export const WRONG_CHECKSUM = 'its checksum is wrong: it was cut off or changed'
export const NONSENSE = 'its numbers make no sense'
