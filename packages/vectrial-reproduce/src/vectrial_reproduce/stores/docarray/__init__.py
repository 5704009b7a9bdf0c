"""DocArray's document stores."""
