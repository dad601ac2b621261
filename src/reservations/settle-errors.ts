/** Every code of a settlement that was not done, with its status and the sentence that `docs/reasons.md` gives for it. */
export const SETTLE_ERRORS = {
  bad_settlement: { status: 400, meaning: 'The body is not a settlement; the message says what was expected.' },
  settlement_too_large: { status: 413, meaning: 'The body is larger than 64 KiB.' },
  unsupported_media_type: { status: 415, meaning: 'The body is compressed (Content-Encoding).' },
  bad_reservation: { status: 400, meaning: 'The token is not one of ours, was changed, or was issued with another secret.' },
  already_settled: { status: 409, meaning: 'The reservation was settled or renewed before. Nothing was changed.' },
  expired_reservation: {
    status: 410,
    meaning:
      'The reservation is older than two hours, is from an instance that shares no Redis with this one, or was lost in a crash. It stands.',
  },
  store_unavailable: { status: 503, meaning: 'Redis cannot be asked. Nothing was changed: try again.' },
  settlement_unknown: { status: 503, meaning: 'It is not known whether it was done. A retry may get already_settled.' },
  internal_error: { status: 500, meaning: 'The service failed, and it is not known whether it was done; the log has the cause.' },
} as const satisfies Record<string, { status: number; meaning: string }>

export type SettleError = keyof typeof SETTLE_ERRORS
