"""From raw parameters to typed ones: one pipeline, which collects every mistake."""
